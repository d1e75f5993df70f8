package dev.octet.trainer.hook;

import dev.octet.trainer.loss.LossValue;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.OptionalDouble;

/**
 * Observes a run. Hooks are called in the run's thread, in the order given. All methods do nothing by default. An exception ends the run.
 *
 * <p>A run calls, in this order: {@link #recall} (resumed runs only) and {@link #runStarted}; for each step {@link #beforeStep},
 * {@link #afterBackward} (with gradients), {@link #nonFiniteSeen}, {@link #lossScaleChanged}, {@link #amaxRecorded} and
 * {@link #scaleUpdated}, {@link #fp8Measured}, {@link #tensorsObserved}, {@link #afterStep}, {@link #rolledBack}, {@link #guardDecided}, then
 * {@link #evaluated}, {@link #remembered} and
 * {@link #checkpointWritten}, each if there is something to report; finally {@link #runEnded}. Expensive reports are opt-in:
 * {@link #watchesGradients}, {@link #watchesScales}, {@link #watchesAmaxes}, {@link #watchesFp8}.
 */
public interface TrainingHook {
    /** Before the first step. */
    default void runStarted(RunStart start, RunControl control) throws IOException {}

    /** Before a step reads its samples. */
    default void beforeStep(long step) throws IOException {}

    /** After all micro-batches of a step, before gradients are clipped and applied. */
    default void afterBackward(long step, Gradients gradients) throws IOException {}

    /**
     * After a step with FP8: the amax of a tensor; of inputs, and with delayed scaling also of weights and gradients. Reading it from the
     * device takes time; see {@link #watchesAmaxes()}.
     */
    default void amaxRecorded(long step, String slot, float amax) throws IOException {}

    /** After a step that changed a delayed scale (a dequantisation multiplier; 1 before the first step). See {@link #watchesScales()}. */
    default void scaleUpdated(long step, String slot, float before, float after) throws IOException {}

    /** After a step that changed the loss scale. */
    default void lossScaleChanged(long step, double before, double after) throws IOException {}

    /** After a step whose loss or gradients were not finite, before it is skipped or the run ends. */
    default void nonFiniteSeen(NonFinite seen) throws IOException {}

    /** After a step that some hook requested by {@link #watchesFp8}: how well tensors fitted their FP8 codes. All hooks are called. */
    default void fp8Measured(Fp8Report report) throws IOException {}

    /** After a step in which {@code debug:} asked for statistics. */
    default void tensorsObserved(ObservationReport report) throws IOException {}

    /** After a step, applied or skipped. */
    default void afterStep(StepReport report) throws IOException {}

    /**
     * After the run went back to the state that it had after an earlier step; the steps behind it are repeated. {@link #recall} has been called,
     * and {@link #guardDecided} is called with the reason.
     */
    default void rolledBack(long step) throws IOException {}

    /** After a step, when the run's guard has decided something. */
    default void guardDecided(GuardReport report) throws IOException {}

    /** After an evaluation. */
    default void evaluated(EvaluationReport report) throws IOException {}

    /** After a checkpoint was renamed to its final name. */
    default void checkpointWritten(CheckpointReport report) throws IOException {}

    /** At the end of the run, complete or not; also after an exception. */
    default void runEnded(RunEnd end) throws IOException {}

    /** State of the hook to save in checkpoints, by name; a resumed run passes it to {@link #recall}. */
    default Map<String, String> remembered() {
        return Map.of();
    }

    /**
     * Before {@link #runStarted} of a resumed run, and when a run is rolled back: restores the state from {@link #remembered}.
     *
     * @throws NumberFormatException when a value is not a number: the checkpoint is then reported as damaged
     */
    default void recall(Map<String, String> remembered) {}

    /** Whether to call {@link #scaleUpdated}. */
    default boolean watchesScales() {
        return false;
    }

    /** Whether to call {@link #amaxRecorded}. */
    default boolean watchesAmaxes() {
        return watchesScales();
    }

    /** Whether to measure the FP8 tensors of a step for {@link #fp8Measured}. Costs about as much as casting them again. */
    default boolean watchesFp8(long step) {
        return false;
    }

    /** Whether to call {@link #afterBackward}. */
    default boolean watchesGradients() {
        return false;
    }

    /**
     * What a run is about to do.
     *
     * @param firstStep first step of this session, from 1; above 1 when resumed
     * @param lastStep last step of this session
     * @param plan model, device and memory
     */
    record RunStart(Path folder, long firstStep, long lastStep, RunPlan plan) {}

    /**
     * Result of an evaluation.
     *
     * @param loss mean over the counted positions
     * @param lossParts as in {@link StepReport}
     * @param perplexity e to the mean loss per token against its label; empty when the loss is not over tokens
     * @param positions number of counted positions: for a language model the predicted tokens
     */
    record EvaluationReport(
            long step,
            double loss,
            Map<String, Double> lossParts,
            OptionalDouble perplexity,
            long samples,
            long positions,
            double seconds) {
        /**
         * A measure by its name in {@code metrics.jsonl} without {@code eval_}: {@code loss}, {@code perplexity}, {@code task_loss}, {@code
         * rewards/chosen}; empty where there is none of that name.
         */
        public OptionalDouble measure(String name) {
            if (name.equals("loss")) {
                return OptionalDouble.of(loss);
            }
            if (name.equals("perplexity")) {
                return perplexity;
            }
            return lossParts.entrySet().stream()
                    .filter(part -> LossValue.field(part.getKey()).equals(name))
                    .mapToDouble(Map.Entry::getValue)
                    .findFirst();
        }
    }

    /** A written checkpoint. */
    record CheckpointReport(long step, Path folder, long bytes, double seconds) {}
}
