package dev.octet.formats.op;

/**
 * The number type an operator computes in under autocast. PyTorch has one list for processors and one for CUDA, Apex O1 a third; Apex O2
 * and O3 narrow the whole model. "GPU" stands for PyTorch's CUDA list and Apex O1 together, which agree on most operators.
 *
 * <p>Where PyTorch's functions and ONNX's operators do not match one to one: {@code bmm}, {@code mm}, {@code addmm}, {@code linear} are
 * MatMul, Gemm, Linear and Einsum; sums and norms are ReduceSum, ReduceL1 and their like.
 *
 * <p>Source: PyTorch's <a href="https://docs.pytorch.org/docs/stable/amp.html">operator lists</a>; NVIDIA/apex:apex/amp/lists.
 */
public enum AutocastClass {
    /** The widest type among the inputs, which is what PyTorch's type promotion comes to. */
    WIDEST,
    /** Products: narrow in every list. */
    LOW,
    /** Narrow in PyTorch's lists; Apex is older than the operator. */
    LOW_IN_PYTORCH,
    /** F32 on GPUs: loses too much in eight or ten bits of mantissa, or overflows. */
    F32_ON_GPU,
    /** F32 on processors and on GPUs. */
    F32_ON_BOTH,
    /** F32 on processors only. */
    F32_ON_CPU,
    /** F32 on processors and in Apex O1, not in PyTorch's CUDA list. */
    F32_ON_CPU_AND_IN_APEX,
    /** F32 in Apex O1 only. */
    F32_IN_APEX,
    /** F32 in the narrow models of Apex O2, unless its settings say otherwise. */
    F32_IN_LOW_MODELS,
    /** Losses: F32 in every list, in narrow models too. */
    LOSS,
    /** Octet's losses: they read narrow scores without a wide copy, compute in F32 and give F32. */
    WIDENS_ITSELF
}
