"""A graph network on random graphs, and its explanation."""

import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, global_mean_pool

torch.manual_seed(0)
graphs = [
    Data(torch.randn(10, 4), torch.randint(0, 10, (2, 30)), y=torch.randint(0, 2, (1,)))
    for _ in range(64)
]


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(4, 16), GATConv(16, 2)

    def forward(self, x, edge_index, batch=None):
        return global_mean_pool(self.second(self.first(x, edge_index).relu(), edge_index), batch)


network = Network()
optimizer = torch.optim.Adam(network.parameters(), 0.01)
for _ in range(3):
    for batch in DataLoader(graphs, batch_size=16):
        optimizer.zero_grad()
        out = network(batch.x, batch.edge_index, batch.batch)
        loss = torch.nn.functional.cross_entropy(out, batch.y)
        loss.backward()
        optimizer.step()
    print(loss.item())
explain = Explainer(
    network,
    GNNExplainer(epochs=10),
    explanation_type="model",
    node_mask_type="attributes",
    edge_mask_type="object",
    model_config={"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"},
)
print(explain(graphs[0].x, graphs[0].edge_index).node_mask.sum().item())
