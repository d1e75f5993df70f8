package dev.octet.trainer.optimizer;

import dev.octet.trainer.op.cast.Cast;
import dev.octet.trainer.op.gather.CutGather;
import dev.octet.trainer.op.gather.Gather;
import dev.octet.trainer.op.gather.GatherState;
import dev.octet.trainer.op.state.DecodeState;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/** The parameters of a program whose rows are looked up by numbers. */
final class Embeddings {
    private Embeddings() {}

    /** Names of the parameters that a Gather reads, as they are or cast. */
    static Set<String> of(Program training) {
        Map<Value, @Nullable Value> origin = new HashMap<>();
        for (Step s : training.steps()) {
            if (!s.backward() && (s.op() instanceof Cast || s.op() instanceof DecodeState || s.isView())) {
                origin.put(s.results().getFirst(), s.inputs().getFirst());
            }
        }
        Set<String> names = new TreeSet<>();
        for (Step s : training.steps()) {
            if (isLookup(s) && !s.backward()) {
                Value table = s.inputs().getFirst();
                while (table != null && table.role() != ValueRole.PARAMETER) {
                    table = origin.get(table);
                }
                if (table != null) {
                    names.add(table.name());
                }
            }
        }
        return names;
    }

    private static boolean isLookup(Step s) {
        return s.op() instanceof Gather || s.op() instanceof CutGather || s.op() instanceof GatherState;
    }
}
