"""Augmentations and filters of images."""

import kornia
import torch

torch.manual_seed(0)
images = torch.rand(4, 3, 48, 48, requires_grad=True)
augment = kornia.augmentation.AugmentationSequential(
    kornia.augmentation.RandomAffine(30.0),
    kornia.augmentation.ColorJitter(0.1, 0.1, 0.1, 0.1),
    kornia.augmentation.RandomHorizontalFlip(),
    data_keys=["input"],
)
for _ in range(10):
    blurred = kornia.filters.gaussian_blur2d(augment(images), (5, 5), (1.5, 1.5))
    edges = kornia.filters.sobel(blurred)
    edges.mean().backward()
    print(edges.mean().item(), images.grad.norm().item())
print(kornia.losses.ssim_loss(images, images.flip(-1), 5).item())
