"""Many nodes: ffrfs/cluster, and the recipes of docs/cluster, run as far as one machine allows."""
