package dev.octet.trainer.state;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.scale.MsampScale;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.OperandType;
import java.util.function.IntFunction;

/** Kept tensors as the kernels of {@code states.cu} know them. */
public final class CudaState {
    /** Kernels that read and write kept tensors. */
    public static final CudaSource SOURCE = CudaSource.of(CudaState.class, "states.cu");

    /** Words that describe a tensor. */
    public static final int WORDS = 7;

    private CudaState() {}

    /** The number of a form in the enumeration {@code Form}. */
    public static int id(StateForm form) {
        return switch (form) {
            case StateForm.Plain(DType type) -> type == DType.F32 ? 0 : type == DType.BF16 ? 1 : 2;
            case StateForm.Stochastic() -> 3;
            case StateForm.PowerOfTwo p -> p.type() == DType.F8_E4M3FN ? 4 : p.type() == DType.F8_E5M2 ? 5 : 6;
            case StateForm.Fused(DType type) -> type == DType.F8_E4M3FN ? 7 : 8;
            case StateForm.Blocked(BlockCodes codes) ->
                switch (codes) {
                    case FP8 -> 9;
                    case INT8 -> 10;
                    case UINT8 -> 11;
                    case INT4 -> 12;
                    case UINT4 -> 13;
                };
            case StateForm.BlockedPart _ ->
                throw new IllegalArgumentException("parts of tensors are kept on processors");
            case StateForm.Split() -> 14;
        };
    }

    /**
     * The words of a tensor that is read.
     *
     * @param first operand that is its first part
     */
    public static long[] words(StateForm form, OperandType tensor, IntFunction<CudaTensor> operands, int first) {
        boolean two = form.parts(tensor).size() > 1;
        return new long[] {
            id(form),
            operands.apply(first).address(),
            two ? operands.apply(first + 1).address() : 0,
            0,
            0,
            quirks(form),
            ones(form)
        };
    }

    /** The words of a tensor that is read and written. */
    public static long[] words(
            StateForm form,
            OperandType tensor,
            IntFunction<CudaTensor> inputs,
            int firstInput,
            IntFunction<CudaTensor> outputs,
            int firstOutput) {
        long[] words = words(form, tensor, inputs, firstInput);
        long[] written = words(form, tensor, outputs, firstOutput);
        words[3] = written[1];
        words[4] = written[2];
        return words;
    }

    private static long quirks(StateForm form) {
        return form instanceof StateForm.PowerOfTwo(DType _, MsampScale rule, StateForm.OfZeros _) && rule.quirks()
                ? 1
                : 0;
    }

    private static long ones(StateForm form) {
        return form instanceof StateForm.PowerOfTwo p && p.zero() == StateForm.OfZeros.ONE ? 1 : 0;
    }

    /** Address of the quantiles of all codes, one map behind the other. */
    public static long quantiles(CudaStream cuda) {
        float[] all = new float[544];
        int at = 0;
        for (BlockCodes codes :
                new BlockCodes[] {BlockCodes.INT8, BlockCodes.UINT8, BlockCodes.INT4, BlockCodes.UINT4}) {
            float[] map = QuantileMap.of(codes).values();
            System.arraycopy(map, 0, all, at, map.length);
            at += map.length;
        }
        long[] words = new long[all.length / 2];
        for (int i = 0; i < words.length; i++) {
            words[i] = ((long) Float.floatToRawIntBits(all[2 * i + 1]) << 32)
                    | (Float.floatToRawIntBits(all[2 * i]) & 0xFFFFFFFFL);
        }
        return cuda.table(words);
    }
}
