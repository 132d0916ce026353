"""What names of kernels and of devices tell."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import pytest

from holter.analysis.device.flops import peak, transformer_flops
from holter.analysis.device.kernel_names import Product, product


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("volta_sgemm_128x64_nt", Product("fp32", tensor_cores=False)),
        ("ampere_dgemm_64x64_nn", Product("fp64", tensor_cores=False)),
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", Product("fp16", tensor_cores=True)),
        ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_stages_32x5_tn", Product("bf16", tensor_cores=True)),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32", Product("tf32", tensor_cores=True)),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn>", Product("fp32", tensor_cores=False)),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x128>", Product("tf32", tensor_cores=True)),
        ("nvjet_tst_192x8_64x8_4x1_v_bz_TNT", Product("bf16", tensor_cores=True)),
        ("Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32", Product("fp32", tensor_cores=False)),
        ("Cijk_Ailk_Bjlk_HHS_BH_MT64x64x32_MI32x32x8x1", Product("fp16", tensor_cores=True)),
        ("void gemv2T_kernel_val<int, int, __nv_bfloat16, float>", Product("bf16", tensor_cores=False)),
        ("void at::native::elementwise_kernel<128, 4>", None),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", None),
        ("triton_poi_fused_addmm_gelu_view_17", None),
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float>", None),
    ],
)
def test_what_a_kernel_is(name, expected):
    assert product(name) == expected


def test_names_of_real_jobs():
    path = Path(os.environ.get("HOLTER_DATA", "../shared/data")) / "kernel_names.csv"
    if not path.exists():
        pytest.skip(f"{path} is not here; HOLTER_DATA names the folder of real traces")
    names = [row["name"] for row in csv.DictReader(path.read_text().splitlines())]
    found = {name: product(name) for name in names}
    single = [n for n in names if re.match(r"(\w+_)?(volta|turing|ampere)_(sgemm|scudnn)", n)]
    assert len(single) > 50
    assert all(found[n] == Product("fp32", tensor_cores=False) for n in single)
    half = [n for n in names if "tensorop" in n or re.match(r"Cijk_\w{4}_\w{4}_B", n) or "_xmma_" in n]
    assert len(half) > 200
    assert all(found[n] and found[n].tensor_cores and found[n].reduced for n in half if "reduc" not in n)
    others = [n for n in names if "elementwise" in n or n.startswith(("nccl", "triton_poi", "triton_red"))]
    assert len(others) > 100
    assert all(found[n] is None for n in others)


@pytest.mark.parametrize(
    ("device", "teraflops"),
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 NVL", 835),
        ("NVIDIA H20", 148),
        ("NVIDIA H200", 989),
        ("NVIDIA GB200", 2500),
        ("NVIDIA A100-SXM4-40GB", 312),
        ("NVIDIA RTX A6000", 154.85),
        ("AMD Instinct MI300X", 1300),
    ],
)
def test_peaks(device, teraflops):
    assert peak(device) == teraflops * 1e12
    assert peak(device, "tf32") == teraflops * 0.5e12


def test_a_device_that_is_not_known_has_no_peak():
    assert peak("NVIDIA GeForce GTX 1080") is None
    assert peak("") is None


def test_p21_operations_of_a_transformer():
    flops = transformer_flops(7e9, 16384, layers=32, hidden=4096, sequence=4096)
    assert flops == pytest.approx(7.94e14, rel=1e-3)
    assert transformer_flops(7e9, 16384) == pytest.approx(6.88e14, rel=1e-3)
