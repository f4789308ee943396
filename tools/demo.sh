#!/usr/bin/env bash
# Installs what is needed, builds, and runs a trained MNIST network on the simulated chip.
source "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"
install_packages
build release kodama
say "three digits on the simulated MN-Core 2"
exec build/release/tools/kodama run testsuite/models/mnist8/model.onnx --chip mncore2 \
  --test-data testsuite/models/mnist8 --show-images --classes
