"""Modules as a user would bring them, for `model: {name: module}`."""

import torch
from torch import nn


class Small(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 3, 3), nn.GroupNorm(1, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, width))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(x.flatten(1))


class WithBatchNorm(Small):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(10)


class WithDropout(Small):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout()


class FiveClasses(Small):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 5)


def not_a_module():
    return 3
