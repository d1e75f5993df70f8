package dev.octet.trainer.activation;

import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The layer of each forward step, by names: {@code transformer.h.3}, {@code model.layers.3}, {@code encoder.layer.3}, {@code layer1.0}, with dots or, as ONNX exporters
 * write them, slashes. The names of weights that a step reads come first, then that of its node, since some exporters number their nodes from one to the end of the
 * model. A step without a name of its own belongs to the layer of the step before it.
 */
final class Layers {
    /** In {@link #of}: of no layer. */
    static final int OUTSIDE = -1;

    private static final Pattern NUMBERED = Pattern.compile("^(.*?[A-Za-z_][A-Za-z_0-9]*)\\.(\\d+)(?=\\.|$)");

    private final int[] of;
    private final List<String> names;

    private Layers(int[] of, List<String> names) {
        this.of = of;
        this.names = names;
    }

    /** The layers of a program, in the order of its forward steps. */
    static Layers in(Program program) {
        List<Step> steps = program.steps(Phase.FORWARD);
        Map<Value, String> weights = weights(program);
        Map<String, Set<String>> numbers = new HashMap<>();
        List<@Nullable String> own = new ArrayList<>();
        for (Step s : steps) {
            String name = name(s, weights);
            own.add(name);
            Matcher m = name == null ? null : NUMBERED.matcher(name);
            if (m != null && m.find()) {
                numbers.computeIfAbsent(m.group(1), _ -> new TreeSet<>()).add(m.group(2));
            }
        }
        int[] of = new int[steps.size()];
        Map<String, Integer> layers = new LinkedHashMap<>();
        int current = OUTSIDE;
        for (int i = 0; i < of.length; i++) {
            String name = own.get(i);
            if (name != null) {
                Matcher m = NUMBERED.matcher(name);
                boolean isLayer =
                        m.find() && numbers.getOrDefault(m.group(1), Set.of()).size() > 1;
                current = isLayer ? layers.computeIfAbsent(m.group(1) + "." + m.group(2), _ -> layers.size()) : OUTSIDE;
            }
            of[i] = current;
        }
        return new Layers(of, List.copyOf(layers.keySet()));
    }

    /** The name of the weight behind each value that lasts: of a parameter its own, of what is prepared from it that of the parameter. */
    private static Map<Value, String> weights(Program program) {
        Map<Value, String> weights = new HashMap<>();
        for (Step s : program.steps(Phase.PREPARE)) {
            for (Value in : s.operands()) {
                String name = weight(in, weights);
                if (name != null) {
                    s.results().forEach(r -> {
                        if (r != null && r.role() == ValueRole.PREPARED) {
                            weights.putIfAbsent(r, name);
                        }
                    });
                }
            }
        }
        return weights;
    }

    private static @Nullable String weight(Value v, Map<Value, String> prepared) {
        return switch (v.role()) {
            case PARAMETER, STORED -> v.name();
            case PREPARED -> prepared.get(v);
            case INPUT, CONSTANT, STATE, GRADIENT, TEMPORARY, HOSTED -> null;
        };
    }

    /** What says where a step belongs; null where nothing does. */
    private static @Nullable String name(Step step, Map<Value, String> weights) {
        String other = null;
        for (Value v : step.operands()) {
            String weight = weight(v, weights);
            if (weight != null) {
                String name = dotted(weight);
                if (NUMBERED.matcher(name).find()) {
                    return name;
                }
                other = name;
            }
        }
        String node = dotted(step.node());
        if (NUMBERED.matcher(node).find()) {
            return node;
        }
        return other != null ? other : node.equals("loss") || node.equals("fp8") ? node : null;
    }

    /** As torch writes it: exporters to ONNX begin with a slash and separate by them. */
    private static String dotted(String name) {
        return name.replace('/', '.').replaceFirst("^\\.+", "");
    }

    /** The layer of forward step {@code i}, or {@link #OUTSIDE}. */
    int of(int i) {
        return of[i];
    }

    /** Number of layers. */
    int count() {
        return names.size();
    }

    /** For messages: the first name. */
    List<String> names() {
        return names;
    }

    /** The group of each forward step where so many layers are one. */
    int[] groups(int layersOfGroup) {
        return Arrays.stream(of)
                .map(layer -> layer == OUTSIDE ? OUTSIDE : layer / layersOfGroup)
                .toArray();
    }
}
