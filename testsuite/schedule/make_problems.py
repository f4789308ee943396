#!/usr/bin/env python3
"""Writes the problems of this directory, the fixed set of `kodama bench schedule`.

    make_problems.py KODAMA MODELS [OUT]

KODAMA is the program, MODELS a folder with lenet.onnx, gcn_dense.onnx, gpt2_tiny.onnx, transformer_encoder.onnx and
vit_tiny.onnx (mnist8 is in testsuite/models), OUT another folder to write to. Three kinds, 60 in all:

- kernels: blocks and loops as the compiler gives them to its schedulers. A name says which: the model, with a precision
  if it isn't gfloat, the layer, and how many operations (the first such problem of the model);
- conversions: the code of `kodama layout convert` in plain form, one operation per line;
- judge problems: the answers of testsuite/judge in plain form.

Of a plain form, the segment with most operations is taken. A set made anew has other problems where the compiler has
changed since; a name that the compiler has no problem for any more keeps its file.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CHIP = "mncore2"

KERNELS = """
block_gcn_dense_LogSoftmax_ReduceMax_13
block_gcn_dense_LogSoftmax_Sub_29
block_gcn_dense_MatMul_1_64
block_gcn_dense_MatMul_73
block_gcn_dense_l2_MatMul_7
block_gpt2_tiny_Add_41
block_gpt2_tiny_MatMul_1_10
block_gpt2_tiny_MatMul_1_32
block_gpt2_tiny_b_1_MatMul_47
block_gpt2_tiny_b_1_MatMul_81
block_gpt2_tiny_l1_LayerNormalization_Add_1_109
block_lenet_MaxPool_1_23
block_lenet_Softmax_Div_6
block_lenet_Softmax_ReduceMax_14
block_mnist8_Convolution110_9
block_mnist8_float_Pooling66_89
block_mnist8_float_Times212_56
block_mnist8_half_Convolution110_45
block_transformer_encoder_norm1_LayerNormalization_ReduceMean_1_5
block_transformer_encoder_self_attn_Gemm_95
block_vit_tiny_conv_proj_Conv_152
block_vit_tiny_encoder_layers_encoder_layer_0_mlp_mlp_0_MatMul_20
loop_gcn_dense_LogSoftmax_ReduceSum_57
loop_gcn_dense_MatMul_1_15
loop_gcn_dense_l2_MatMul_6
loop_gpt2_tiny_MatMul_1_32
loop_gpt2_tiny_b_1_MatMul_24
loop_gpt2_tiny_b_1_MatMul_81
loop_gpt2_tiny_b_MatMul_48
loop_gpt2_tiny_o_MatMul_64
loop_lenet_MaxPool_4
loop_mnist8_float_Convolution110_32
loop_mnist8_float_Pooling160_9
loop_mnist8_half_Convolution110_45
loop_mnist8_half_Times212_45
loop_transformer_encoder_norm1_LayerNormalization_ReduceMean_1_4
""".split()

# Name, from, to, shape, type: of each kind of move and level of the chip, as in testsuite/layout/suite.txt.
CONVERSIONS = [
    ("pe_transpose", "((16:16), (16:1))@LM0", "((16:1), (16:16))@LM1", "16,16", "double"),
    ("pe_transpose_in_place", "((16:16), (16:1))@LM0", "((16:1), (16:16))@LM0", "16,16", "double"),
    ("pe_copy_registers", "((128:1))@GRF0", "((128:1))@LM0", "128", "double"),
    ("pe_words", "((4_PE:1), (64:1, 2_W:1))@LM0", "((4_PE:1), (2_W:1, 64:1))@LM1", "4,128", "float"),
    ("pe_halves", "((4_PE:1), (64:1, 4_W:1))@LM0", "((4_PE:1), (4_W:1, 64:1))@LM1", "4,256", "half"),
    ("pe_deal", "((4_PE:1, 64:1))@LM0", "((64:1, 4_PE:1))@LM1", "256", "double"),
    ("mab_deal", "((16_MAB:1, 16:1), (4_PE:1))@LM0", "((16:1, 16_MAB:1), (4_PE:1))@LM1", "256,4", "double"),
    ("mab_gather_words", "((64:1, 16_MAB:1), (4_PE:1, 2_W:1))@LM0", "((16_MAB:1, 64:1), (4_PE:1, 2_W:1))@LM1",
     "1024,8", "float"),
    ("mab_and_pe_exchange", "((16_MAB:1, 4_PE:1, 64:1), (8_L2B:1, 8_L1B:1))@LM0",
     "((4_PE:1, 16_MAB:1, 64:1), (8_L2B:1, 8_L1B:1))@LM1", "4096,64", "double"),
    ("l1b_deal", "((8_L1B:1, 16:1), (16_MAB:1, 4_PE:1))@LM0", "((16:1, 8_L1B:1), (16_MAB:1, 4_PE:1))@LM1", "128,64",
     "double"),
    ("l2b_deal", "((8_L2B:1, 4:1), (8_L1B:1, 16_MAB:1, 4_PE:1))@LM0",
     "((4:1, 8_L2B:1), (8_L1B:1, 16_MAB:1, 4_PE:1))@LM1", "32,512", "double"),
    ("group_deal", "((2_L2B:1, 16:1), (8_L1B:1, 16_MAB:1, 4_PE:1))@LM0",
     "((16:1, 2_L2B:1), (8_L1B:1, 16_MAB:1, 4_PE:1))@LM1", "32,512", "double"),
]  # fmt: skip

# The twelve answers with the longest segments.
JUDGE = """
chip_count l1b_number mab_sort mab_transpose pe_argmax pe_bit_reverse pe_dot_double pe_histogram pe_popcount
pe_reciprocal_root pe_sort pe_xorshift
""".split()


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "KODAMA_CACHE": "off"})
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {result.returncode}\n{result.stdout}{result.stderr}")


def plain(name):
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")


def kernel_problems(kodama, models, folder):
    """Of all models that KERNELS names, by name."""
    found = {}
    for model in ["mnist8", "lenet", "gcn_dense", "gpt2_tiny", "transformer_encoder", "vit_tiny"]:
        file = os.path.join(models, model + ".onnx")
        if model == "mnist8":
            file = os.path.join(HERE, "..", "models", "mnist8", "model.onnx")
        for precision in ["gfloat", "float", "half"]:
            tag = model if precision == "gfloat" else f"{model}_{precision}"
            if not any(re.match(f"(block|loop)_{tag}_", name) for name in KERNELS):
                continue
            dumps = os.path.join(folder, tag)
            run(kodama, "compile", file, "-o", os.path.join(folder, tag + ".package"), "--precision", precision,
                "--dump-after", "schedule-problem", "--dump-dir", dumps)  # fmt: skip
            for dump in sorted(os.listdir(dumps)):
                with open(os.path.join(dumps, dump)) as f:
                    text = f.read()
                problem = json.loads(text)
                kind = "loop" if problem.get("loop") else "block"
                found.setdefault(f"{kind}_{tag}_{plain(problem['name'])}_{len(problem['operations'])}", text)
    return found


def largest_segment(kodama, program, folder):
    """The JSON text of the plain form's largest problem, and its operations."""
    run(kodama, "opt", program, "--chip", CHIP, "--problems", folder)
    best = (0, "")
    for file in sorted(os.listdir(folder)):
        with open(os.path.join(folder, file)) as f:
            text = f.read()
        size = len(json.loads(text)["operations"])
        if size > best[0]:
            best = (size, text)
    return best


def main():
    kodama, models = sys.argv[1:3]
    out = sys.argv[3] if len(sys.argv) > 3 else HERE
    problems = {}
    with tempfile.TemporaryDirectory() as folder:
        kernels = kernel_problems(kodama, models, folder)
        for name in KERNELS:
            if name not in kernels:
                print(f"{name}: the compiler has no such problem any more")
            problems[name] = kernels.get(name)
        for name, source, target, shape, kind in CONVERSIONS:
            program = os.path.join(folder, name + ".vsm")
            run(kodama, "layout", "convert", source, target, "--shape", shape, "--type", kind, "--chip", CHIP,
                "--emit", program)  # fmt: skip
            size, text = largest_segment(kodama, program, os.path.join(folder, "convert_" + name))
            problems[f"block_convert_{name}_{size}"] = text
        for name in JUDGE:
            program = os.path.join(folder, name + ".vsm")  # the problem gets the file's name
            shutil.copy(os.path.join(HERE, "..", "judge", name, "answer.vsm"), program)
            size, text = largest_segment(kodama, program, os.path.join(folder, "judge_" + name))
            problems[f"block_judge_{name}_{size}"] = text
    for file in os.listdir(out):
        if file.endswith(".json") and file[: -len(".json")] not in problems:
            os.remove(os.path.join(out, file))
    for name, text in problems.items():
        if text is not None:
            with open(os.path.join(out, name + ".json"), "w") as f:
                f.write(text)


main()
