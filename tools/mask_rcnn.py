"""Mask R-CNN with its losses as one graph, made of torchvision's parts (Debian: python3-torch python3-torchvision).

The parts are those of torchvision.models.detection: ResNet-50 with frozen batch normalization and a feature pyramid, the
region proposal network with its anchors, RoIAlign over the levels, the heads of boxes and masks. torchvision's own training
mode draws samples from lists whose lengths only the data know, and ONNX has no operator for what it draws with. Here what is
drawn is an input (noise), lists have the length that they have at most, and what isn't there counts nothing in the losses:
the same losses of the same samples, in static shapes.

`proposals` is a value of the graph that gradients don't pass: in PyTorch it is detached, in ONNX `--stop` names it.
"""
import math
import tempfile
import warnings

import onnx
import onnx.helper
import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models import resnet
from torchvision.models.detection import _utils, faster_rcnn, mask_rcnn, rpn
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.image_list import ImageList
from torchvision.ops import FrozenBatchNorm2d, boxes as box_ops, roi_align

STRIDES = (4, 8, 16, 32)  # of the levels that regions are read from; the fifth is the proposals' alone
INPUTS = ("pictures", "boxes", "labels", "masks", "anchor_noise", "proposal_noise")


class Body(resnet.ResNet):
    """ResNet-50, or the same with fewer blocks, whose stages are `narrow` times as narrow."""

    def __init__(self, layers, narrow):
        self.narrow = narrow
        super().__init__(resnet.Bottleneck, layers, norm_layer=FrozenBatchNorm2d)

    def _make_layer(self, block, planes, *arguments, **options):
        return super()._make_layer(block, planes // self.narrow, *arguments, **options)


class MaskRcnn(nn.Module):
    """The sum of the five losses. A picture has `truths` true boxes, with a label and a mask for each."""

    def __init__(self, size=128, truths=4, layers=(3, 4, 6, 3), narrow=1, classes=91, anchors=64, before=128, proposals=64,
                 rois=32):
        super().__init__()
        self.size, self.truths = size, truths
        self.anchors, self.before, self.proposals, self.rois = anchors, before, proposals, rois
        width = 256 // narrow
        self.backbone = BackboneWithFPN(Body(layers, narrow), {f"layer{i + 1}": str(i) for i in range(4)},
                                        [256 * 2 ** i // narrow for i in range(4)], width)
        self.anchor_generator = AnchorGenerator(tuple((s,) for s in (32, 64, 128, 256, 512)), ((0.5, 1.0, 2.0),) * 5)
        self.rpn_head = rpn.RPNHead(width, 3)
        self.box_head = faster_rcnn.TwoMLPHead(width * 7 ** 2, 1024 // narrow)
        self.box_predictor = faster_rcnn.FastRCNNPredictor(1024 // narrow, classes)
        self.mask_head = mask_rcnn.MaskRCNNHeads(width, (width,) * 4, 1)
        self.mask_predictor = mask_rcnn.MaskRCNNPredictor(width, width, classes)
        self.anchor_coder = _utils.BoxCoder((1.0, 1.0, 1.0, 1.0))
        self.box_coder = _utils.BoxCoder((10.0, 10.0, 5.0, 5.0))

    def forward(self, pictures, boxes, labels, masks, anchor_noise, proposal_noise):
        count = int(pictures.shape[0])
        features = list(self.backbone(pictures).values())
        objectness, deltas, anchors, numbers = self.score(pictures, features)
        proposals = torch.stack([torch.cat([self.propose(objectness[i].detach(), deltas[i].detach(), anchors, numbers),
                                            boxes[i]]) for i in range(count)])
        losses = [self.rpn_loss(objectness[i], deltas[i], anchors, boxes[i], anchor_noise[i]) for i in range(count)]
        loss = sum(o / n + b / n for o, b, n in losses) / count

        samples = [self.sample_regions(proposals[i], boxes[i], labels[i], proposal_noise[i]) for i in range(count)]
        rois, targets, classes, matched, valid = (torch.cat(part) for part in zip(*samples))
        loss = loss + self.box_loss(self.regions(features, samples, 7), rois, targets, classes, valid)

        positives = self.rois // 4  # they come first
        samples = [tuple(part[:positives] for part in sample) for sample in samples]
        loss = loss + self.mask_loss(self.regions(features, samples, 14), samples, masks)
        return loss, proposals

    # Proposals.

    def score(self, pictures, features):
        """Of every picture, level by level: objectness (anchors), deltas (anchors, 4); the anchors, and their number by
        level."""
        count = int(pictures.shape[0])
        objectness, deltas = self.rpn_head(features)
        numbers = [int(level[0].numel()) for level in objectness]
        anchors = self.anchor_generator(ImageList(pictures, [(self.size, self.size)] * count), features)[0]
        objectness = torch.cat([level.permute(0, 2, 3, 1).reshape(count, -1) for level in objectness], 1)
        deltas = torch.cat([level.permute(0, 2, 3, 1).reshape(count, -1, 4) for level in deltas], 1)
        return objectness, deltas, anchors, numbers

    def propose(self, objectness, deltas, anchors, numbers):
        """The best of every level, without those that overlap a better one too much: (proposals, 4). Where fewer are left
        the others are the best that weren't."""
        best, of_level, first = [], [], 0
        for level, number in enumerate(numbers):
            most = min(self.before, number)
            best.append(objectness[first:first + number].topk(most)[1] + first)
            of_level += [level] * most
            first += number
        best = torch.cat(best)
        boxes = self.anchor_coder.decode_single(deltas[best], anchors[best])
        boxes = box_ops.clip_boxes_to_image(boxes, (self.size, self.size))
        score, order = torch.sigmoid(objectness[best]).topk(len(of_level))
        boxes, of_level = boxes[order], torch.tensor(of_level)[order]
        extent = boxes[:, 2:] - boxes[:, :2]
        there = ((extent[:, 0] >= 1e-3) & (extent[:, 1] >= 1e-3)).float()
        # suppresses[i, j]: i is better than j and too much like it.
        suppresses = ((box_ops.box_iou(boxes, boxes) > 0.7) & (of_level[:, None] == of_level[None, :])).float()
        suppresses = torch.triu(suppresses, 1)
        # Who is suppressed by one that stays. A box is decided as soon as all better ones that are like it are.
        stays = there
        for _ in range(12):
            stays = there * (stays[None, :] @ suppresses < 0.5)[0].float()
        return boxes[(score + stays).topk(self.proposals)[1]]

    # Matching and sampling.

    def sample(self, is_positive, is_negative, noise, count, positives):
        """Places of `count` samples, of which at most `positives` are positive and stand first; which are any; which are
        positive. Noise is from 0 to 1, without 0."""
        most, places = torch.where(is_positive, noise, torch.zeros_like(noise)).topk(positives)
        chosen = is_positive & (noise >= most[-1])
        key = torch.where(chosen, 2 + noise, torch.where(is_negative, 1 + noise, torch.zeros_like(noise)))
        key, places = key.topk(count)
        return places, key > 0.5, key > 2

    def rpn_loss(self, objectness, deltas, anchors, boxes, noise):
        """Sums of the losses of objectness and of boxes over sampled anchors, and the number of these."""
        overlap = box_ops.box_iou(boxes, anchors)
        best, match = overlap.max(0)
        # A true box has the anchors that are nearest to it, however far.
        nearest = (overlap == overlap.max(1, keepdim=True)[0]).any(0)
        is_positive = (best >= 0.7) | nearest
        is_negative = (best < 0.3) & ~is_positive
        places, valid, positive = self.sample(is_positive, is_negative, noise, self.anchors, self.anchors // 2)
        valid, positive = valid.float(), positive.float()
        wanted = self.anchor_coder.encode_single(boxes[match[places]], anchors[places])
        of_objectness = F.binary_cross_entropy_with_logits(objectness[places], positive, reduction="none")
        of_boxes = smooth_l1(deltas[places] - wanted).sum(1)
        return (of_objectness * valid).sum(), (of_boxes * positive).sum(), valid.sum()

    def sample_regions(self, proposals, boxes, labels, noise):
        """Rois, what their boxes should be, their classes, the true box of each, and which are any."""
        best, match = box_ops.box_iou(boxes, proposals).max(0)
        places, valid, positive = self.sample(best >= 0.5, best < 0.5, noise, self.rois, self.rois // 4)
        rois, match = proposals[places], match[places]
        return (rois, self.box_coder.encode_single(boxes[match], rois), labels[match] * positive.long(), match,
                valid.float())

    # Heads.

    def regions(self, features, samples, bins):
        """What the levels have in the rois, each of the level that fits its size: picture by picture."""
        return torch.cat([self.regions_of([feature[i:i + 1] for feature in features], sample[0], bins)
                          for i, sample in enumerate(samples)])

    def regions_of(self, features, rois, bins):
        size = torch.sqrt(box_ops.box_area(rois))
        level = torch.floor(4 + torch.log2(size / 224) + 1e-6).clamp(2, 5)
        boxes = torch.cat([torch.zeros(len(rois), 1), rois], 1)
        of_levels = [roi_align(feature, boxes, bins, 1 / stride, 2) * (level == i + 2).float()[:, None, None, None]
                     for i, (feature, stride) in enumerate(zip(features, STRIDES))]
        return sum(of_levels[1:], of_levels[0])

    def box_loss(self, regions, rois, targets, classes, valid):
        logits, deltas = self.box_predictor(self.box_head(regions))
        of_classes = F.cross_entropy(logits, torch.where(valid > 0, classes, torch.full_like(classes, -100)))
        deltas = deltas.reshape(len(rois), -1, 4)[torch.arange(len(rois)), classes]
        of_boxes = (smooth_l1(deltas - targets).sum(1) * (classes > 0).float()).sum() / valid.sum()
        return of_classes + of_boxes

    def mask_loss(self, regions, samples, masks):
        logits = self.mask_predictor(self.mask_head(regions))
        side = int(logits.shape[-1])
        targets = torch.cat([roi_align(mask[:, None], torch.cat([match[:, None].float(), rois], 1), side, 1.0, 2)[:, 0]
                             for mask, (rois, _, _, match, _) in zip(masks, samples)])
        classes = torch.cat([sample[2] for sample in samples])
        there = (classes > 0).float()
        logits = logits[torch.arange(len(classes)), classes]
        losses = F.binary_cross_entropy_with_logits(logits, targets, reduction="none").mean((1, 2))
        return (losses * there).sum() / there.sum().clamp(min=1)

    # What the zoo asks for.

    def example(self, pictures, seed=0):
        """Values of INPUTS by name: ellipses in noise, their boxes, labels and masks."""
        generator = torch.Generator().manual_seed(seed)

        def uniform(*shape, low=0.0, high=1.0):
            return torch.rand(shape, generator=generator) * (high - low) + low

        size, truths, classes = self.size, self.truths, self.box_predictor.cls_score.out_features
        extent = uniform(pictures, truths, 2, low=0.2, high=0.6) * size
        begin = uniform(pictures, truths, 2) * (size - extent)
        labels = torch.randint(1, classes, (pictures, truths), generator=generator)
        place = torch.arange(size) + 0.5
        middle, half = begin + extent / 2, extent / 2
        column, row = ((place - middle[..., k, None]) / half[..., k, None] for k in (0, 1))
        masks = (column[..., None, :] ** 2 + row[..., None] ** 2 <= 1).float()
        colour = (masks * (2 * labels / classes - 1)[..., None, None]).sum(1, keepdim=True)
        anchors = sum(3 * math.ceil(size / stride) ** 2 for stride in (*STRIDES, 2 * STRIDES[-1]))
        values = (uniform(pictures, 3, size, size, low=-1) + colour, torch.cat([begin, begin + extent], 2), labels, masks,
                  uniform(pictures, anchors, low=0.01, high=0.99),
                  uniform(pictures, self.proposals + truths, low=0.01, high=0.99))
        return dict(zip(INPUTS, values))

    def multiply_adds(self, values):
        """Of convolutions and matrix products of the forward pass."""
        total = 0

        def count(part, inputs, output):
            nonlocal total
            is_turned = isinstance(part, nn.ConvTranspose2d)
            total += (inputs[0] if is_turned else output).numel() * part.weight[0].numel()

        hooks = [part.register_forward_hook(count) for part in self.modules()
                 if isinstance(part, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear))]
        with torch.no_grad():
            self(**values)
        for hook in hooks:
            hook.remove()
        return total

    def export(self, values):
        """The ONNX model: inputs as in INPUTS, the output `loss`. Its initializers have the module's names; those that no
        optimizer changes are the statistics and scales of frozen normalizations."""
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(self, tuple(values.values()), file.name, opset_version=17, input_names=list(INPUTS),
                              output_names=["loss", "proposals"], training=torch.onnx.TrainingMode.TRAINING,
                              do_constant_folding=False)
            model = onnx.load(file.name)
        del model.graph.output[1]
        # torchvision 0.14 writes RoiAlign as operator set 11 had it, without the attribute whose default is another now.
        for node in model.graph.node:
            if node.op_type == "RoiAlign" and all(a.name != "coordinate_transformation_mode" for a in node.attribute):
                node.attribute.append(onnx.helper.make_attribute("coordinate_transformation_mode", "output_half_pixel"))
        return model


def smooth_l1(difference):
    size = difference.abs()
    return torch.where(size < 1 / 9, 4.5 * size * size, size - 0.5 / 9)


def make(seed=0, **options):
    """The module, with weights and statistics that the seed says: values keep their size through the depth."""
    torch.manual_seed(seed)
    module = MaskRcnn(**options)
    for name, part in module.named_modules():
        if isinstance(part, FrozenBatchNorm2d):
            last = name.endswith("bn3")  # of a block, whose result is added to what the block reads
            part.weight.uniform_(0.1, 0.3) if last else part.weight.uniform_(0.6, 1.4)
            part.bias.normal_(0, 0.1)
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 1.5)
    nn.init.normal_(module.rpn_head.cls_logits.weight, 0, 0.05)  # so that scores aren't all alike
    return module.train()
