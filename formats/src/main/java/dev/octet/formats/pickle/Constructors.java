package dev.octet.formats.pickle;

import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The classes and functions that a pickle may name: all that torch, DeepSpeed and Megatron need for tensors, and for the settings next to them. None is ever called;
 * the list keeps files out that would do something in Python.
 */
final class Constructors {
    /** Those that stand for a value of Python itself. */
    static final Set<String> BUILTINS = Set.of(
            "collections.OrderedDict",
            "collections.defaultdict",
            "builtins.set",
            "builtins.frozenset",
            "builtins.bytearray",
            "builtins.list",
            "builtins.dict",
            "builtins.tuple",
            "builtins.int",
            "builtins.float",
            "builtins.bool",
            "builtins.str",
            "builtins.complex",
            "builtins.slice",
            "_codecs.encode");

    private static final Set<String> KNOWN = Stream.of(
                    BUILTINS.stream(),
                    Stream.of(
                            // tensors, torch/_utils.py
                            "torch._utils._rebuild_tensor",
                            "torch._utils._rebuild_tensor_v2",
                            "torch._utils._rebuild_tensor_v3",
                            "torch._utils._rebuild_parameter",
                            "torch._utils._rebuild_parameter_with_state",
                            "torch._tensor._rebuild_from_type_v2",
                            "torch.Tensor",
                            "torch.nn.parameter.Parameter",
                            "torch.nn.parameter.Buffer",
                            "torch.Size",
                            "torch.device",
                            "torch.serialization._get_layout",
                            "torch.strided",
                            "torch.storage._load_from_bytes",
                            "torch.storage.UntypedStorage",
                            "torch.storage.TypedStorage",
                            "torch.torch_version.TorchVersion"),
                    Stream.of(
                                    "Float",
                                    "Double",
                                    "Half",
                                    "BFloat16",
                                    "Long",
                                    "Int",
                                    "Short",
                                    "Char",
                                    "Byte",
                                    "Bool",
                                    "ComplexFloat",
                                    "ComplexDouble",
                                    "QInt8",
                                    "QInt32",
                                    "QUInt8",
                                    "Untyped",
                                    "Typed")
                            .map(t -> "torch." + t + "Storage"),
                    Stream.of(
                                    "float32",
                                    "float",
                                    "float64",
                                    "double",
                                    "float16",
                                    "half",
                                    "bfloat16",
                                    "int64",
                                    "long",
                                    "int32",
                                    "int",
                                    "int16",
                                    "short",
                                    "int8",
                                    "uint8",
                                    "uint16",
                                    "uint32",
                                    "uint64",
                                    "bool",
                                    "complex64",
                                    "complex128",
                                    "float8_e4m3fn",
                                    "float8_e5m2",
                                    "float8_e4m3fnuz",
                                    "float8_e5m2fnuz",
                                    "float8_e8m0fnu",
                                    "float4_e2m1fn_x2",
                                    "qint8",
                                    "quint8",
                                    "qint32")
                            .map(t -> "torch." + t),
                    // distributed checkpoints, torch/distributed/checkpoint/metadata.py and filesystem.py
                    Stream.of(
                                    "metadata.Metadata",
                                    "metadata.MetadataIndex",
                                    "metadata.TensorStorageMetadata",
                                    "metadata.BytesStorageMetadata",
                                    "metadata.ChunkStorageMetadata",
                                    "metadata.TensorProperties",
                                    "metadata.StorageMeta",
                                    "metadata._MEM_FORMAT_ENCODING",
                                    "planner.SavePlan",
                                    "planner.WriteItem",
                                    "planner.WriteItemType",
                                    "planner.TensorWriteData",
                                    "planner.BytesIOWriteData",
                                    "filesystem._StorageInfo",
                                    "filesystem._StoragePrefix")
                            .map(t -> "torch.distributed.checkpoint." + t),
                    // numbers and arrays of NumPy, in settings and random states
                    Stream.of("numpy.core.multiarray", "numpy._core.multiarray")
                            .flatMap(m -> Stream.of(m + ".scalar", m + "._reconstruct")),
                    Stream.of("numpy.dtype", "numpy.ndarray"),
                    Stream.of(
                                    "Float64", "Float32", "Float16", "Int64", "Int32", "Int16", "Int8", "UInt8",
                                    "UInt32", "UInt64", "Bool")
                            .map(t -> "numpy.dtypes." + t + "DType"),
                    // settings: DeepSpeed's engine, Megatron's arguments
                    Stream.of(
                            "argparse.Namespace",
                            "types.SimpleNamespace",
                            "pathlib.PosixPath",
                            "pathlib.WindowsPath",
                            "pathlib._local.PosixPath",
                            "signal.Signals",
                            "_io.BytesIO",
                            "deepspeed.runtime.fp16.loss_scaler.LossScaler",
                            "deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler",
                            "deepspeed.runtime.zero.config.ZeroStageEnum",
                            "deepspeed.utils.tensor_fragment.fragment_address",
                            "deepspeed.utils.mixed_precision_linkage.fragment_address",
                            "deepspeed.checkpoint.universal_checkpoint.SubparamShape",
                            "megatron.core.dist_checkpointing.strategies.torch.MCoreMetadata",
                            "megatron.core.dist_checkpointing.strategies.torch.MCoreSavePlan",
                            "megatron.core.enums.ModelType",
                            "megatron.core.transformer.enums.AttnBackend",
                            "megatron.core.transformer.enums.AttnMaskType",
                            "megatron.core.transformer.enums.LayerType",
                            "megatron.core.enums.Fp8Recipe",
                            "megatron.core.rerun_state_machine.RerunMode",
                            "megatron.core.rerun_state_machine.RerunState",
                            "megatron.core.rerun_state_machine.RerunDiagnostic",
                            "megatron.core.extensions.transformer_engine.TEDelayedScaling"),
                    // recipes of FP8 training, transformer_engine/common/recipe/__init__.py
                    Stream.of(
                                    "DelayedScaling",
                                    "Float8CurrentScaling",
                                    "Float8BlockScaling",
                                    "MXFP8BlockScaling",
                                    "NVFP4BlockScaling",
                                    "Format",
                                    "_FormatHelper",
                                    "_OverrideLinearPrecision",
                                    "MMParams",
                                    "QParams")
                            .map(t -> "transformer_engine.common.recipe." + t))
            .flatMap(s -> s)
            .collect(Collectors.toUnmodifiableSet());

    /** Where Python 2 had what Python 3 calls so; pickles up to protocol 2 use the old names. */
    private static final String PYTHON_2 = "__builtin__";

    private Constructors() {}

    /** A name as Python 3 has it. */
    static PickleValue.Global named(String module, String name) {
        return new PickleValue.Global(module.equals(PYTHON_2) ? "builtins" : module, name);
    }

    static boolean isKnown(PickleValue.Global global) {
        return KNOWN.contains(global.qualified());
    }
}
