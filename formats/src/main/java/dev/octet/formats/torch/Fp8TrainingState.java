package dev.octet.formats.torch;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.model.ExtraState;
import dev.octet.formats.pickle.PickleLimits;
import dev.octet.formats.pickle.PickleValue;
import dev.octet.formats.pickle.PickleValue.Dict;
import dev.octet.formats.pickle.PickleValue.Instance;
import dev.octet.formats.pickle.PickleValue.None;
import dev.octet.formats.pickle.PickleValue.Sequence;
import dev.octet.formats.tensor.DType;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The state of FP8 training of one module as Transformer Engine saved it, decoded without running its pickle. Source: transformer_engine/pytorch/module/base.py,
 * {@code get_extra_state}, of versions 1.x (a buffer of {@code torch.save}) and 2.x (a uint8 tensor with a pickle).
 *
 * @param module its name in the checkpoint
 * @param recipe class of the recipe; empty where none is stored, as of a module that was not trained in FP8
 * @param historyLength rows of the amax history; 0 where the recipe keeps no state
 * @param gemms its matrix products, in the order of Transformer Engine; empty where the recipe keeps no state
 */
public record Fp8TrainingState(String module, String recipe, int historyLength, List<Gemm> gemms) {
    /** Version 1.x knew no other recipe, and stored none. */
    private static final String DELAYED_SCALING = "DelayedScaling";

    private static final PickleLimits LIMITS = new PickleLimits(ExtraState.MAX_BYTES, 1L << 20, 64);

    /** Buffers in tensors in files: Megatron saves what Transformer Engine saved. */
    private static final int MAX_WRAPPINGS = 4;

    private static final int FORWARD_SLOTS = 3;
    private static final int BACKWARD_SLOTS = 2;
    private static final String FIX = "save the checkpoint again; its weights are read without this state";

    public Fp8TrainingState {
        gemms = List.copyOf(gemms);
    }

    /**
     * One matrix product of a module: a Linear has one, an MLP two, a grouped Linear one for each expert.
     *
     * @param output not quantised by Linears: scale 1
     * @param gradOutput gradient of the output, which the products of backward read
     * @param gradInput not quantised by Linears: scale 1
     */
    public record Gemm(Operand input, Operand weight, Operand output, Operand gradOutput, Operand gradInput) {}

    /**
     * A tensor that is quantised with a scale of its history.
     *
     * @param scale dequantisation multiplier, the reciprocal of Transformer Engine's {@code scale}
     * @param newestAmax of the last step that was finished: the last row of the history
     * @param largestAmax of the whole history; 0 when the operand was never quantised
     */
    public record Operand(float scale, float newestAmax, float largestAmax) {}

    /**
     * Decodes a state.
     *
     * @throws MalformedModelException when it is damaged, or its sizes contradict each other
     * @throws UnsupportedModelException when its pickle names what no state needs, which the message names
     */
    public static Fp8TrainingState of(ExtraState stored) throws IOException {
        return new Decoder(stored).read();
    }

    /** Decodes one state. */
    private record Decoder(ExtraState stored) {
        Fp8TrainingState read() throws IOException {
            byte[] bytes = stored.bytes();
            for (int i = 0; i < MAX_WRAPPINGS; i++) {
                if (bytes.length == 0) {
                    return stateless("");
                }
                TorchFile file = TorchFile.ofBytes(bytes, Path.of(stored.where()), LIMITS);
                PickleValue root = file.root();
                if (root instanceof Sequence list && list.items().size() == 1) {
                    root = list.items().getFirst();
                }
                if (root instanceof None) {
                    return stateless("");
                }
                if (root instanceof Dict state) {
                    return ofState(file, state);
                }
                bytes = file.bufferOrTensor(root, label(), ExtraState.MAX_BYTES);
            }
            throw broken("is wrapped more than " + MAX_WRAPPINGS + " times");
        }

        private Fp8TrainingState stateless(String recipe) {
            return new Fp8TrainingState(stored.module(), recipe, 0, List.of());
        }

        private Fp8TrainingState ofState(TorchFile file, Dict state) throws IOException {
            PickleValue recipe = state.get("recipe");
            String name = recipe instanceof Instance instance ? instance.type().name() : "";
            if (state.get("scale_fwd") == null && !name.isEmpty()) {
                return stateless(name);
            }
            Table forwardScales = table(file, state, "scale_fwd", 1);
            Table forwardHistory = table(file, state, "amax_history_fwd", 2);
            Table backwardScales = table(file, state, "scale_bwd", 1);
            Table backwardHistory = table(file, state, "amax_history_bwd", 2);
            int gemms = forwardScales.columns / FORWARD_SLOTS;
            requireShape(forwardScales, 1, gemms * FORWARD_SLOTS);
            requireShape(forwardHistory, forwardHistory.rows, gemms * FORWARD_SLOTS);
            requireShape(backwardScales, 1, gemms * BACKWARD_SLOTS);
            requireShape(backwardHistory, forwardHistory.rows, gemms * BACKWARD_SLOTS);
            if (gemms == 0 || forwardHistory.rows == 0) {
                throw broken("has no scales, or a history of no steps");
            }
            List<Gemm> found = new ArrayList<>();
            for (int g = 0; g < gemms; g++) {
                int forward = g * FORWARD_SLOTS;
                int backward = g * BACKWARD_SLOTS;
                found.add(new Gemm(
                        operand(forwardScales, forwardHistory, forward),
                        operand(forwardScales, forwardHistory, forward + 1),
                        operand(forwardScales, forwardHistory, forward + 2),
                        operand(backwardScales, backwardHistory, backward),
                        operand(backwardScales, backwardHistory, backward + 1)));
            }
            return new Fp8TrainingState(
                    stored.module(), name.isEmpty() ? DELAYED_SCALING : name, forwardHistory.rows, found);
        }

        private Operand operand(Table scales, Table history, int slot) {
            float quantScale = scales.numbers[slot];
            float scale = 1 / quantScale;
            if (!(quantScale > 0) || !(scale > 0) || Float.isInfinite(scale)) {
                throw broken("has the scale " + quantScale + " in " + scales.name + "[" + slot + "]");
            }
            float largest = 0;
            for (int row = 0; row < history.rows; row++) {
                float amax = history.numbers[row * history.columns + slot];
                if (amax < 0) {
                    throw broken("has the amax " + amax + " in " + history.name);
                }
                largest = Math.max(largest, amax);
            }
            return new Operand(scale, history.numbers[(history.rows - 1) * history.columns + slot], largest);
        }

        /** Numbers in rows; a vector has one. */
        @SuppressWarnings("ArrayRecordComponent") // compared by nobody
        private record Table(String name, int rows, int columns, float[] numbers) {}

        private Table table(TorchFile file, Dict state, String name, int rank) throws IOException {
            PickleValue value = state.get(name);
            if (value == null || !TorchFile.isTensor(value)) {
                throw broken("has no " + name);
            }
            TorchFile.SmallTensor tensor = file.small(value, name + " of " + stored.module(), ExtraState.MAX_BYTES);
            long[] dims = tensor.shape().toArray();
            if (tensor.dtype() != DType.F32 || dims.length != rank) {
                throw broken("has " + name + " of " + tensor.dtype() + " " + Arrays.toString(dims));
            }
            float[] numbers = new float[tensor.elements().length / Float.BYTES];
            ByteBuffer.wrap(tensor.elements())
                    .order(ByteOrder.LITTLE_ENDIAN)
                    .asFloatBuffer()
                    .get(numbers);
            // a tensor without elements may have any other size
            return numbers.length == 0
                    ? new Table(name, 0, 0, numbers)
                    : new Table(name, rank == 1 ? 1 : (int) dims[0], (int) dims[rank - 1], numbers);
        }

        private void requireShape(Table table, int rows, int columns) {
            if (table.rows != rows || table.columns != columns) {
                throw broken("has " + table.name + " of " + table.rows + " x " + table.columns + ", not " + rows + " x "
                        + columns);
            }
        }

        private String label() {
            return "'" + stored.module() + "'";
        }

        private MalformedModelException broken(String what) {
            return new MalformedModelException(
                    "the state of FP8 training of " + label() + " " + what, stored.where(), FIX);
        }
    }
}
