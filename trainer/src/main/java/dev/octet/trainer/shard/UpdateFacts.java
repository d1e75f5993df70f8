package dev.octet.trainer.shard;

import dev.octet.trainer.optimizer.UpdateProgram;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;

/**
 * What an update says of the parameters it updates: which states only one of them needs, and how many bytes they take.
 *
 * @param parameters those that are updated, with the bytes of their gradients and states
 * @param parameterOf the parameter that a state belongs to, by the state's name; states that several need, or all, are not there
 */
record UpdateFacts(Map<String, Long> parameters, Map<String, String> parameterOf) {
    UpdateFacts {
        parameters = Collections.unmodifiableMap(new LinkedHashMap<>(parameters));
        parameterOf = Map.copyOf(parameterOf);
    }

    static UpdateFacts of(Program training, UpdateProgram update) {
        Set<String> names = new LinkedHashSet<>(update.squares().keySet());
        names.retainAll(update.program().gradients().keySet()); // a stage of a pipeline updates some of them
        Map<String, String> owners = new HashMap<>();
        Set<String> shared = new HashSet<>();
        for (Step step : update.program().steps()) {
            for (Value v : step.operands()) {
                if (v.role() != ValueRole.STATE) {
                    continue;
                }
                String before = owners.putIfAbsent(v.name(), step.node());
                if (!names.contains(step.node()) || (before != null && !before.equals(step.node()))) {
                    shared.add(v.name());
                }
            }
        }
        owners.keySet().removeAll(shared);
        Map<String, Long> bytes = new LinkedHashMap<>();
        names.forEach(name -> bytes.put(name, 0L));
        training.gradients().forEach((name, g) -> bytes.merge(name, g.type().byteSize(), Long::sum));
        for (Value v : update.program().values()) {
            String owner = owners.get(v.name());
            if (owner != null && v.role() == ValueRole.STATE) {
                bytes.merge(owner, v.type().byteSize(), Long::sum);
            }
        }
        return new UpdateFacts(bytes, owners);
    }
}
