package dev.octet.trainer;

import dev.octet.trainer.hook.TrainingHook;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * How a run goes on, beside its configuration.
 *
 * @param resume whether the folder has a run that goes on
 * @param fromStep the checkpoint to go on from; 0 for the newest
 * @param maxSteps steps to do at most this time; schedules do not depend on it
 * @param hooks called after those that every run has
 * @param manifest what the manifest is to say of this process, in this order: command, model, threads
 */
public record RunOptions(
        boolean resume, long fromStep, long maxSteps, List<TrainingHook> hooks, Map<String, String> manifest) {
    /** A new run of all steps. */
    public static final RunOptions NEW = new RunOptions(false, 0, Long.MAX_VALUE, List.of(), Map.of());

    public RunOptions {
        hooks = List.copyOf(hooks);
        manifest = Collections.unmodifiableMap(new LinkedHashMap<>(manifest)); // a file has its keys in this order
    }

    /** The same with other hooks. */
    public RunOptions withHooks(List<TrainingHook> newHooks) {
        return new RunOptions(resume, fromStep, maxSteps, newHooks, manifest);
    }

    /** Goes on from the newest checkpoint. */
    public RunOptions resuming() {
        return new RunOptions(true, fromStep, maxSteps, hooks, manifest);
    }

    /** At most so many steps. */
    public RunOptions withMaxSteps(long steps) {
        return new RunOptions(resume, fromStep, steps, hooks, manifest);
    }
}
