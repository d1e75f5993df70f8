package dev.octet.trainer.state;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.scale.MsampScale;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import java.util.Locale;

/**
 * How the numbers of one tensor are kept from step to step.
 *
 * <p>A tensor is kept in one or two parts: codes, under the tensor's own name, and what it takes to read them, scales or remainders. A scale is
 * always the dequantisation multiplier.
 */
public sealed interface StateForm {
    /** What the name of a tensor's scales ends with. */
    String SCALE = ".scale";

    /** What the name of the rest of a tensor that is split ends with. */
    String REMAINDER = ".remainder";

    /**
     * In a float type, rounded to nearest even.
     *
     * @param type F32, BF16 or F16
     */
    record Plain(DType type) implements StateForm {
        /** As it is; what runs keep by default. */
        public static final StateForm F32 = new Plain(DType.F32);

        public Plain {
            require(type == DType.F32 || type == DType.BF16 || type == DType.F16, type);
        }
    }

    /**
     * In BF16, rounded up or down at random, so that the mean is the number itself (torchao/optim/quant_utils.py, {@code _fp32_to_bf16_sr}). What is drawn follows from the
     * tensor's name, the step and the element alone.
     */
    record Stochastic() implements StateForm {}

    /**
     * MS-AMP's ScalingTensor: one power of two for the tensor, {@code codes = T(x · 2^k)}.
     *
     * @param type F8_E4M3FN, F8_E5M2 or F16
     * @param rule how the power follows from amax
     * @param zero the power of a tensor of zeros
     */
    record PowerOfTwo(DType type, MsampScale rule, OfZeros zero) implements StateForm {
        public PowerOfTwo {
            require(type == DType.F8_E4M3FN || type == DType.F8_E5M2 || type == DType.F16, type);
        }

        /** For parameters and gradients, without MS-AMP's oddities. */
        public static PowerOfTwo of(DType type) {
            return new PowerOfTwo(type, MsampScale.MENDED, OfZeros.AS_BEFORE);
        }
    }

    /** Which power of two belongs to a tensor of zeros. */
    enum OfZeros {
        /** The one it had: MS-AMP's casts. */
        AS_BEFORE,
        /** 2^0: MS-AMP's optimizers. */
        ONE
    }

    /**
     * Transformer Engine's FusedAdam: {@code scale = amax / R} for the tensor, R being 448 for E4M3 and half of the largest number for F16.
     *
     * @param type F8_E4M3FN or F16
     */
    record Fused(DType type) implements StateForm {
        public Fused {
            require(type == DType.F8_E4M3FN || type == DType.F16, type);
        }
    }

    /** torchao's low-bit states: a scale for each block of neighbouring elements of the flattened tensor. */
    record Blocked(BlockCodes codes) implements StateForm {
        /** Tensors with fewer elements stay in F32. */
        public static final long LEAST = 4096;
    }

    /**
     * The codes of a part of a tensor that is {@link Blocked}. Blocks are those of the whole tensor, and ranks that have parts of a block have the same scale of it: each has the scales of all blocks.
     * Element i of the part is element {@code i / run * stride + first + i % run} of the whole.
     *
     * @param count elements of the whole tensor
     * @param run how many elements of the part lie side by side in it
     * @param stride from the beginning of a run to that of the next
     * @param first where the first run begins
     */
    record BlockedPart(BlockCodes codes, long count, long run, long stride, long first) implements StateForm {
        public BlockedPart {
            if (codes.bits() != 8 || count % codes.block() != 0 || run < 1) {
                throw new IllegalArgumentException(codes + " of a part, " + count + " elements in runs of " + run);
            }
        }

        /** Number of blocks of the whole tensor. */
        int blocks() {
            return Math.toIntExact(count / codes.block());
        }

        /** Where an element of the part lies in the whole tensor. */
        long whole(long i) {
            return i / run * stride + first + i % run;
        }

        /** How many elements from one on lie side by side in one block. */
        long together(long i) {
            long inRun = run - i % run;
            long inBlock = codes.block() - whole(i) % codes.block();
            return Math.min(inRun, inBlock);
        }
    }

    /** Transformer Engine's {@code store_param_remainders}: F32 as the BF16 next to it and 16 bits that remain; loses nothing. */
    record Split() implements StateForm {}

    /**
     * One of the tensors that stand for another.
     *
     * @param suffix of its name; empty for the codes
     */
    record Part(String suffix, OperandType type) {}

    private static void require(boolean holds, DType type) {
        if (!holds) {
            throw new IllegalArgumentException("states are not kept in " + type + " this way");
        }
    }

    /** The name of a tensor's scales. */
    static String scale(String name) {
        return name + SCALE;
    }

    /** Whether it is F32. */
    default boolean isF32() {
        return equals(Plain.F32);
    }

    /** Whether the codes are floats that stand for themselves: an operator reads them as any tensor of their type. */
    default boolean isFloats() {
        return this instanceof Plain || this instanceof Stochastic || this instanceof Split;
    }

    /** Whether one scale of the whole tensor follows from its new elements, so that an update looks at all of them before it writes any. */
    default boolean scalesTensor() {
        return this instanceof PowerOfTwo || this instanceof Fused;
    }

    /** Whether ranks that have parts of a tensor share the scales of its blocks, which follow from the new elements of all. */
    default boolean sharesBlocks() {
        return this instanceof BlockedPart;
    }

    /** Whether it can keep a tensor; the others stay in F32. */
    default boolean fits(long count) {
        return !(this instanceof Blocked(BlockCodes codes)) || (count >= Blocked.LEAST && count % codes.block() == 0);
    }

    /** This form, or F32 for a tensor it cannot keep. */
    default StateForm forCount(long count) {
        return fits(count) ? this : Plain.F32;
    }

    /**
     * What stands for a tensor.
     *
     * @param tensor its shape, whatever its type
     */
    default List<Part> parts(OperandType tensor) {
        return switch (this) {
            case Plain(DType type) -> List.of(new Part("", tensor.as(type)));
            case Stochastic() -> List.of(new Part("", tensor.as(DType.BF16)));
            case PowerOfTwo p -> scaled(tensor.as(p.type()), 1);
            case Fused(DType type) -> scaled(tensor.as(type), 1);
            case Blocked(BlockCodes codes) ->
                scaled(
                        codes.bits() == 4
                                ? new OperandType(codes.stored(), Shape.of(tensor.count() / 2))
                                : tensor.as(codes.stored()),
                        tensor.count() / codes.block());
            case BlockedPart b -> scaled(tensor.as(b.codes.stored()), b.blocks());
            case Split() -> List.of(new Part("", tensor.as(DType.BF16)), new Part(REMAINDER, tensor.as(DType.I16)));
        };
    }

    private static List<Part> scaled(OperandType codes, long scales) {
        return List.of(new Part("", codes), new Part(SCALE, new OperandType(DType.F32, Shape.of(scales))));
    }

    /** The names of what stands for a tensor. */
    default List<String> names(String name, Shape shape) {
        return parts(new OperandType(DType.F32, shape)).stream()
                .map(p -> name + p.suffix())
                .toList();
    }

    /** What a part holds before the first step, when the tensor is zero: codes 0; scales 1, but 0 in blocks. */
    default float initial(Part part) {
        return part.suffix().equals(SCALE) && !(this instanceof Blocked || this instanceof BlockedPart) ? 1 : 0;
    }

    /** Bytes of a tensor of {@code count} elements, scales included. */
    default long bytes(long count) {
        return parts(new OperandType(DType.F32, Shape.of(count))).stream()
                .mapToLong(p -> p.type().byteSize())
                .sum();
    }

    /** For people: {@code E4M3 · 2^k}, {@code F16 by amax}, {@code 8-bit, blocks of 256}. */
    default String text() {
        return switch (this) {
            case Plain(DType type) -> type.toString();
            case Stochastic() -> "BF16, rounded stochastically";
            case PowerOfTwo p -> shortName(p.type()) + " times a power of two";
            case Fused(DType type) -> shortName(type) + " times a scale";
            case Blocked(BlockCodes codes) -> text(codes);
            case BlockedPart b -> text(b.codes);
            case Split() -> "BF16 and 16 bits of remainder";
        };
    }

    private static String text(BlockCodes codes) {
        return (codes == BlockCodes.FP8 ? "E4M3" : codes.bits() + "-bit quantiles") + " in blocks of " + codes.block();
    }

    private static String shortName(DType type) {
        return switch (type) {
            case F8_E4M3FN -> "E4M3";
            case F8_E5M2 -> "E5M2";
            default -> type.toString().toUpperCase(Locale.ROOT);
        };
    }
}
