package dev.octet.trainer.step;

import dev.octet.trainer.device.Executable;
import dev.octet.trainer.optimizer.UpdateProgram;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Value;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The update of a step.
 *
 * @param before run before the update, null without stages
 * @param after run after it
 */
record LoadedUpdate(
        UpdateProgram program,
        Executable executable,
        @Nullable Value beta1,
        Map<Double, Value> ownRates,
        @Nullable Executable before,
        @Nullable Executable after) {
    void run() {
        if (before != null) {
            before.run(Phase.UPDATE);
        }
        executable.run(Phase.UPDATE);
        if (after != null) {
            after.run(Phase.UPDATE);
        }
    }

    List<Executable> all() {
        return before == null || after == null ? List.of(executable) : List.of(before, executable, after);
    }
}
