"""Segmentation: transforms, a U-Net, a loss, a metric, inference in windows; workers load."""

import torch
from monai.data import DataLoader, Dataset
from monai.inferers import sliding_window_inference
from monai.losses import DiceLoss
from monai.metrics import DiceMetric
from monai.networks.nets import UNet
from monai.transforms import Compose, ScaleIntensity, ToTensor
from monai.utils import set_determinism

set_determinism(0)
net = UNet(2, in_channels=1, out_channels=2, channels=(8, 16, 32), strides=(2, 2))
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
images = [torch.rand(1, 32, 32).numpy() for _ in range(16)]
loader = DataLoader(
    Dataset(images, Compose([ScaleIntensity(), ToTensor()])), batch_size=4, num_workers=2
)
loss_of = DiceLoss(to_onehot_y=True, softmax=True)
metric = DiceMetric(include_background=False)
for _ in range(2):
    for batch in loader:
        labels = (batch > 0.5).float()
        loss = loss_of(net(batch), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item())
with torch.no_grad():
    found = sliding_window_inference(torch.rand(1, 1, 64, 64), (32, 32), 4, net)
    metric(y_pred=found.argmax(1, keepdim=True), y=torch.ones(1, 1, 64, 64))
    print(found.norm().item(), metric.aggregate().item())
