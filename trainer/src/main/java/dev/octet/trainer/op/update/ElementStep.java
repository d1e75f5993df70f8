package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * What an optimizer computes for each element on its own, from a parameter, its gradient and some buffers. How these tensors are kept is another matter: an
 * operator of its own where all are in F32, {@link CodedStep} in any form.
 */
public sealed interface ElementStep permits AdamStep, SgdStep, LionStep, AdagradStep, LibraryAdam {
    /** Type of the parameter. */
    OperandType p();

    /** Number of buffers. */
    int buffers();

    /** Name for prints and messages. */
    String type();

    /** Whether the learning rate of a tensor follows from a number measured for it, which is then an input. */
    default boolean measuresRate() {
        return false;
    }

    /**
     * The learning rate of a tensor.
     *
     * @param measured of the tensor: {@link UpdateRms}, unless the step says otherwise
     */
    default double rate(double lr, double measured) {
        return lr / UpdateRms.divisor(measured);
    }

    /** The CPU twin's work, in F32; a new one for each thread. */
    TileStep tile(StepScalars s);

    /** The reference twin's work, in F64: the same formulas, element by element. */
    ElementFormula formula(StepScalars s);

    /** The CUDA twin's numbers. */
    CudaRule cuda();

    /**
     * A rule as {@code states.cu} knows it.
     *
     * @param id of its {@code RuleId}
     * @param numbers three, whose meaning is the rule's
     * @param flag whose meaning is the rule's
     */
    record CudaRule(int id, List<Double> numbers, boolean flag, double weightDecay) {
        /** Copies the numbers. */
        public CudaRule {
            numbers = List.copyOf(numbers);
        }
    }

    /** Moves elements on. */
    interface TileStep {
        /**
         * Replaces the first {@code n} elements of p and of the buffers.
         *
         * @param g their gradients, scaled; overwritten
         */
        void run(float[] p, float[] g, float[][] buffers, int n);
    }

    /** Moves an element on. */
    interface ElementFormula {
        /**
         * Replaces an element of p and of the buffers.
         *
         * @param x p, its gradient, then the buffers
         */
        void run(double[] x);
    }
}
