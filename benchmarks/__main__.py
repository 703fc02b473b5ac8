"""python -m benchmarks: arguments, the parts in turn, the table and the JSON."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import mounting, opening, packing, reading
from benchmarks.plan import Plan
from benchmarks.report import Figure, as_json, file_system, table

CHECKOUT = Path(__file__).resolve().parent.parent
RESULTS = CHECKOUT / "benchmarks" / "results"
PARTS = {
    "reading": reading.run,
    "packing": packing.run,
    "mounting": mounting.run,
    "opening": opening.run,
}


def main() -> None:
    args = _arguments()
    args.dir.mkdir(parents=True, exist_ok=True)
    kind = file_system(args.dir)
    if kind in ("tmpfs", "ramfs"):
        print(f"warning: {args.dir} is on {kind}; choose a real disk with --dir", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=args.dir) as name:
        folder = Path(name)
        plan = Plan.quick(folder) if args.quick else Plan(folder)
        parts: dict[str, list[Figure]] = {}
        for part in args.parts or PARTS:
            print(f"{part} …", file=sys.stderr, flush=True)
            parts[part] = PARTS[part](plan)
        document = as_json(parts, plan)
    print(table(parts))
    outputs = [args.json] if args.json else []
    if args.quick:
        print("\n--quick: too little was measured for the figures to mean anything")
    else:
        RESULTS.mkdir(exist_ok=True)
        outputs.append(RESULTS / time.strftime("%Y-%m-%d-%H%M%S.json"))
    for path in outputs:
        path.write_text(document, encoding="utf-8")
        print(f"written: {path}", file=sys.stderr)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument(
        "--dir",
        type=Path,
        default=CHECKOUT / "build" / "bench",
        help="where to make the data (about 8 GB), on a real disk (default: build/bench)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="a further copy of the results")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    args = parser.parse_args()
    for part in args.parts:
        if part not in PARTS:
            parser.error(f"{part}: no such part; there are {', '.join(PARTS)}")
    return args


if __name__ == "__main__":
    main()
