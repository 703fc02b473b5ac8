"""Lightning trains on a pack: python with_lightning.py PACK"""

import io
import sys

import lightning
import numpy as np
import torch
from PIL import Image

from ffrfs.torch import PackedFolderDataset


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8 * 8 * 3, 2)

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.layer(batch[0].flatten(1) / 255), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


transform = lambda data: np.asarray(Image.open(io.BytesIO(data)))  # noqa: E731
loader = torch.utils.data.DataLoader(PackedFolderDataset(sys.argv[1], transform, root="train"), 4)
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", barebones=True)
trainer.fit(Classifier(), loader)
print(trainer.global_step, "steps")
