"""Names of ``c10::ScalarType``: torch's, and the C++ names in Kineto's files."""

from __future__ import annotations

TORCH_NAMES: dict[int, str] = {
    0: "uint8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "float16",
    6: "float32",
    7: "float64",
    8: "complex32",
    9: "complex64",
    10: "complex128",
    11: "bool",
    12: "qint8",
    13: "quint8",
    14: "qint32",
    15: "bfloat16",
    16: "quint4x2",
    17: "quint2x4",
    18: "bits1x8",
    19: "bits2x4",
    20: "bits4x2",
    21: "bits8",
    22: "bits16",
    23: "float8_e5m2",
    24: "float8_e4m3fn",
    25: "float8_e5m2fnuz",
    26: "float8_e4m3fnuz",
    27: "uint16",
    28: "uint32",
    29: "uint64",
    **{29 + bits: f"uint{bits}" for bits in range(1, 8)},
    **{36 + bits: f"int{bits}" for bits in range(1, 8)},
    44: "float8_e8m0fnu",
    45: "float4_e2m1fn_x2",
    46: "bcomplex32",
}
"""``tensors.dtype`` to the name after ``torch.`` in Python."""

CPP_NAMES: dict[int, str] = {
    0: "unsigned char",
    1: "signed char",
    2: "short int",
    3: "int",
    4: "long int",
    5: "c10::Half",
    6: "float",
    7: "double",
    8: "c10::complex<c10::Half>",
    9: "c10::complex<float>",
    10: "c10::complex<double>",
    11: "bool",
    12: "c10::qint8",
    13: "c10::quint8",
    14: "c10::qint32",
    15: "c10::BFloat16",
    16: "c10::quint4x2",
    17: "c10::quint2x4",
    18: "c10::bits1x8",
    19: "c10::bits2x4",
    20: "c10::bits4x2",
    21: "c10::bits8",
    22: "c10::bits16",
    23: "c10::Float8_e5m2",
    24: "c10::Float8_e4m3fn",
    25: "c10::Float8_e5m2fnuz",
    26: "c10::Float8_e4m3fnuz",
    27: "short unsigned int",
    28: "unsigned int",
    29: "long unsigned int",
    **{29 + bits: f"c10::dummy_uint1_7_t<{bits}>" for bits in range(1, 8)},
    **{36 + bits: f"c10::dummy_int1_7_t<{bits}>" for bits in range(1, 8)},
    44: "c10::Float8_e8m0fnu",
    45: "c10::Float4_e2m1fn_x2",
    46: "c10::complex<c10::BFloat16>",
}
"""``tensors.dtype`` to the text of "Input type" in a Chrome trace (GCC's spelling of the type)."""

CODES_BY_CPP_NAME: dict[str, int] = {
    **{name: code for code, name in CPP_NAMES.items()},
    # Clang's spellings, in files of other builds of torch.
    "long": 4,
    "long long": 4,
    "short": 2,
    "char": 1,
    "unsigned short": 27,
    "unsigned long": 29,
}

ITEM_SIZES: dict[int, int] = {
    **dict.fromkeys((0, 1, 11, 12, 13, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26), 1),
    **dict.fromkeys(range(30, 46), 1),  # also types of less than a byte
    **dict.fromkeys((2, 5, 15, 22, 27), 2),
    **dict.fromkeys((3, 6, 8, 14, 28, 46), 4),
    **dict.fromkeys((4, 7, 9, 29), 8),
    10: 16,
}
"""``tensors.dtype`` to bytes per element."""
