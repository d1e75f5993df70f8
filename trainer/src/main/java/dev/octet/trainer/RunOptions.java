package dev.octet.trainer;

import dev.octet.trainer.hook.TrainingHook;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * How to start or resume a run; what it trains is in its configuration.
 *
 * @param resume whether to resume the run in the folder
 * @param fromStep the checkpoint to resume from; 0 for the newest
 * @param maxSteps at most this many steps in this session; schedules do not depend on it
 * @param hooks called after the run's own hooks
 * @param manifest entries for {@code run.json} about this process, in this order: command, model, threads
 */
public record RunOptions(
        boolean resume, long fromStep, long maxSteps, List<TrainingHook> hooks, Map<String, String> manifest) {
    /** A new run of all its steps. */
    public static RunOptions defaults() {
        return new RunOptions(false, 0, Long.MAX_VALUE, List.of(), Map.of());
    }

    public RunOptions {
        hooks = List.copyOf(hooks);
        manifest = Collections.unmodifiableMap(new LinkedHashMap<>(manifest)); // a file has its keys in this order
    }

    /** These options with other hooks. */
    public RunOptions withHooks(List<TrainingHook> newHooks) {
        return new RunOptions(resume, fromStep, maxSteps, newHooks, manifest);
    }

    /** These options, resuming from the newest checkpoint. */
    public RunOptions resuming() {
        return new RunOptions(true, fromStep, maxSteps, hooks, manifest);
    }

    /** These options, resuming from the checkpoint of a step; the newest for 0. */
    public RunOptions resumingFrom(long step) {
        return new RunOptions(true, step, maxSteps, hooks, manifest);
    }

    /** These options with other entries for {@code run.json}. */
    public RunOptions withManifest(Map<String, String> entries) {
        return new RunOptions(resume, fromStep, maxSteps, hooks, entries);
    }

    /** These options with at most {@code steps} steps. */
    public RunOptions withMaxSteps(long steps) {
        return new RunOptions(resume, fromStep, steps, hooks, manifest);
    }
}
