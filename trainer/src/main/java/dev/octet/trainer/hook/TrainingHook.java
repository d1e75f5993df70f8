package dev.octet.trainer.hook;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.OptionalDouble;

/**
 * Called while a run goes on, in the run's thread, hooks in the order given. Every method does nothing unless overridden. An exception
 * ends the run.
 *
 * <p>A run calls, in this order: {@link #recall} (resumed runs), {@link #runStarted}; for each step {@link #beforeStep}, {@link
 * #afterBackward} (with gradients), {@link #nonFiniteSeen}, {@link #lossScaleChanged}, {@link #amaxRecorded} and {@link #scaleUpdated},
 * {@link #fp8Measured}, {@link #afterStep}, then {@link #evaluated}, {@link #remembered} and {@link #checkpointWritten}, each where there
 * is something to tell; and {@link #runEnded}. What costs time is reported only to those who ask for it: {@link #watchesGradients}, {@link
 * #watchesScales}, {@link #watchesAmaxes}, {@link #watchesFp8}.
 */
public interface TrainingHook {
    /** Before the first step. */
    default void runStarted(RunStart start, RunControl control) throws IOException {}

    /** Before a step reads its data. */
    default void beforeStep(long step) throws IOException {}

    /** After all micro-batches of a step, before gradients are clipped and used. */
    default void afterBackward(long step, Gradients gradients) throws IOException {}

    /**
     * After a step with FP8: the largest magnitude a tensor had; inputs, and with delayed scaling weights and gradients. Reading it from
     * the device takes time; see {@link #watchesAmaxes()}.
     */
    default void amaxRecorded(long step, String slot, float amax) throws IOException {}

    /** After a step that changed a scale of delayed scaling, a dequantisation multiplier; 1 before the first step. See {@link #watchesScales()}. */
    default void scaleUpdated(long step, String slot, float before, float after) throws IOException {}

    /** After a step that changed the loss scale. */
    default void lossScaleChanged(long step, double before, double after) throws IOException {}

    /** After a step whose loss or gradients were not finite, before it is skipped or the run ends. */
    default void nonFiniteSeen(NonFinite seen) throws IOException {}

    /** After a step that some hook wanted measured by {@link #watchesFp8}: how tensors fitted their FP8 codes. All hooks receive it. */
    default void fp8Measured(Fp8Report report) throws IOException {}

    /** After a step, used or skipped. */
    default void afterStep(StepReport report) throws IOException {}

    /** After an evaluation. */
    default void evaluated(EvaluationReport report) throws IOException {}

    /** After a checkpoint lies under its final name. */
    default void checkpointWritten(CheckpointReport report) throws IOException {}

    /** After the last step, or when the run ends before it; also when it failed. */
    default void runEnded(RunEnd end) throws IOException {}

    /** What a resumed run must get back through {@link #recall}, by name; goes into checkpoints. */
    default Map<String, String> remembered() {
        return Map.of();
    }

    /**
     * Before {@link #runStarted} of a resumed run: what {@link #remembered} said when the checkpoint was written.
     *
     * @throws NumberFormatException when it is not such a text: the checkpoint is then called damaged
     */
    default void recall(Map<String, String> remembered) {}

    /** Whether {@link #scaleUpdated} is wanted. */
    default boolean watchesScales() {
        return false;
    }

    /** Whether {@link #amaxRecorded} is wanted. */
    default boolean watchesAmaxes() {
        return watchesScales();
    }

    /** Whether the FP8 tensors of a step are to be measured for {@link #fp8Measured}. It costs about as much as casting them again. */
    default boolean watchesFp8(long step) {
        return false;
    }

    /** Whether {@link #afterBackward} is wanted. */
    default boolean watchesGradients() {
        return false;
    }

    /**
     * What a run is about to do.
     *
     * @param firstStep first step it will do, from 1; above 1 when it was resumed
     * @param lastStep last step it will do
     * @param plan what it trains, on what, in how much memory
     */
    record RunStart(Path folder, long firstStep, long lastStep, RunPlan plan) {}

    /**
     * An evaluation.
     *
     * @param loss mean over the positions that count
     * @param lossParts as {@link StepReport} has them
     * @param perplexity e to the mean loss of a token against its label; empty where no loss is of tokens
     * @param positions how many positions counted: of a language model the tokens that were to be foretold
     */
    record EvaluationReport(
            long step,
            double loss,
            Map<String, Double> lossParts,
            OptionalDouble perplexity,
            long samples,
            long positions,
            double seconds) {}

    /** A checkpoint that was written. */
    record CheckpointReport(long step, Path folder, long bytes, double seconds) {}
}
