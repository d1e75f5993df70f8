package dev.octet.trainer.kernel;

/** An operator without a backward half: no gradient flows through it, so backward reads no values and is never called. */
public interface ForwardOp extends Op {
    /** What a twin does when it is asked for the backward half all the same. */
    default IllegalStateException noBackward() {
        return new IllegalStateException(type() + " has no backward half");
    }

    @Override
    default boolean isDifferentiable(int i) {
        return false;
    }

    @Override
    default boolean backwardReadsInput(int i) {
        return false;
    }
}
