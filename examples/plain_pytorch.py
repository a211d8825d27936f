"""The weights of a run load in plain PyTorch: selc is not imported here."""

import sys

import torch
from safetensors.torch import load_file
from torch import nn

run = sys.argv[1]  # such as runs/demo/selc
hidden = nn.Sequential(nn.Flatten(), nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU())
model = nn.Sequential()
model.add_module("features", hidden)
model.add_module("head", nn.Linear(512, 10))
model.load_state_dict(load_file(f"{run}/model.safetensors"))

print("probabilities of a blank image:", model.eval()(torch.zeros(1, 1, 8, 8)).softmax(1).tolist()[0])
