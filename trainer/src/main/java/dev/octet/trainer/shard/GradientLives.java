package dev.octet.trainer.shard;

import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Between which steps of a training program each gradient of a parameter is added up.
 *
 * @param first number of the first step that touches it, by parameter
 * @param last of the last one
 */
public record GradientLives(Map<String, Integer> first, Map<String, Integer> last) {
    /** Keeps copies. */
    public GradientLives {
        first = Collections.unmodifiableMap(new LinkedHashMap<>(first));
        last = Collections.unmodifiableMap(new LinkedHashMap<>(last));
    }

    /** Those of a training program. */
    public static GradientLives of(Program training) {
        Map<Value, String> names = new HashMap<>();
        training.gradients().forEach((name, g) -> names.put(g, name));
        Map<String, Integer> first = new LinkedHashMap<>();
        Map<String, Integer> last = new LinkedHashMap<>();
        List<Step> steps = training.steps();
        for (int i = 0; i < steps.size(); i++) {
            for (Value v : steps.get(i).operands()) {
                String name = names.get(v);
                if (name != null) {
                    first.putIfAbsent(name, i);
                    last.put(name, i);
                }
            }
        }
        return new GradientLives(first, last);
    }
}
