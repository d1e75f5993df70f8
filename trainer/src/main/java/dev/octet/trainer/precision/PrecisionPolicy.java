package dev.octet.trainer.precision;

import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.program.Emitter;
import dev.octet.trainer.program.Value;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** How a program computes in mixed precision. Parameters are F32 masters whatever the policy; casts of them are made once per step. */
public interface PrecisionPolicy {
    /** What happens to the float inputs of an operator before it runs. */
    enum Rule {
        /** Cast to {@link #low()}. */
        LOW,
        /** Cast to F32. */
        F32,
        /** Cast to the widest type among them. */
        WIDEST,
        /** Left as they are: the operator widens what it reads, tile by tile. */
        AS_THEY_ARE
    }

    /** Everything in F32. */
    PrecisionPolicy FP32 = new PrecisionPolicy() {
        @Override
        public String name() {
            return "fp32";
        }

        @Override
        public DType low() {
            return DType.F32;
        }

        @Override
        public Rule rule(Node node) {
            return Rule.F32;
        }
    };

    /** As in the configuration: {@code bf16}, {@code fp8 delayed HYBRID}. */
    String name();

    /** The narrow type: BF16, F16, or F32 where nothing is narrowed. */
    DType low();

    /** The rule for an operator. */
    Rule rule(Node node);

    /**
     * The policy for one program. Whoever writes a program asks for it first and then calls the other methods on the answer, once for
     * each node in order: it may remember what it wrote.
     *
     * @param graph canonical, at concrete shapes
     * @param trains whether a backward half follows; without one nothing lasting is changed
     */
    default PrecisionPolicy forProgram(Graph graph, boolean trains) {
        return this;
    }

    /**
     * What of a canonical graph is computed in FP8; nothing under most policies.
     *
     * @throws dev.octet.formats.error.InvalidOptionException when an override names no layer
     */
    default Fp8Choice fp8(Graph graph) {
        return Fp8Choice.NONE;
    }

    /** Whether {@link #linear} writes a node, as far as its weight's form is concerned; weights are decoded to F32 for those alone. */
    default boolean writes(Node node) {
        return false;
    }

    /** Whether {@link #linear} takes weights that are kept in few bits as they are, codes and scales, and not as floats decoded from them. */
    default boolean readsCodes() {
        return false;
    }

    /**
     * Writes a Linear in FP8, or leaves it to {@link #rule}.
     *
     * @param x input [..., in], in the type it was made in
     * @param w master weight, [in, out], or [out, in] when the node's {@code transB} is 1
     * @return the output [..., out] the emitted steps make; null when this Linear is not FP8
     */
    default @Nullable Value linear(Node node, Value x, Value w, @Nullable Value bias, Emitter emitter) {
        return null;
    }

    /**
     * Writes the Linears of experts that are computed as one in FP8, or leaves them to {@link #rule}.
     *
     * @param inputs of the node: x [rows, in], the experts' offsets among rows, the master weights of all experts, their biases or none
     * @return the output [rows, out]; null when these Linears are not in FP8
     */
    default @Nullable Value groupedLinear(Node node, List<Value> inputs, Emitter emitter) {
        return null;
    }

    /**
     * Writes what is done to the input of a Linear whose frozen weight stays in its own codes.
     *
     * @param x [..., in], in the type that is multiplied
     * @return what is multiplied, of the same type
     */
    default Value storedInput(Node node, Value x, int in, int out, Emitter emitter) {
        return x;
    }

    /** Writes what is done to the output of such a Linear, or to its gradient on the way back. */
    default Value storedResult(Node node, Value y, int in, int out, Emitter emitter) {
        return y;
    }

    /** Writes what happens once after all forward steps, such as rolling amax histories. */
    default void afterForward(Emitter emitter) {}

    /** Writes what happens once after all backward steps. */
    default void afterBackward(Emitter emitter) {}
}
