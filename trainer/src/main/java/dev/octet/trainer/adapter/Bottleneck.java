package dev.octet.trainer.adapter;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.adapter.AdapterEdit.Behind;
import dev.octet.trainer.precision.LinearModule;
import java.util.ArrayList;
import java.util.List;

/**
 * Bottleneck adapters: {@code y = h + scaling·(U·f(D·h + d) + u)} for what the last Linear of a layer's attention or feedforward part returns, D [width/reduction, width].
 * Behind both parts after Houlsby et al. (arXiv:1902.00751), behind the feedforward part after Pfeiffer et al. (arXiv:2005.00247). Keys are those of AdapterHub's
 * {@code BnConfig}: {@code mh_adapter}, {@code output_adapter}, {@code reduction_factor}, {@code non_linearity}, {@code scaling}, {@code init_weights}.
 */
final class Bottleneck {
    /** Deviation of BERT's initial weights. */
    private static final double BERT = 0.02;

    private final AdapterSettings settings;
    private final AdapterEdit edit;
    private final JsonNode json;

    Bottleneck(AdapterSettings settings, AdapterEdit edit) {
        this.settings = settings;
        this.edit = edit;
        this.json = settings.config().json();
    }

    /**
     * Adds the adapters.
     *
     * @return what was added in words
     * @throws InvalidOptionException when the model has no such modules, and targets are not named
     */
    String apply() {
        Targets targets = settings.config().has("target_modules")
                ? Targets.of(settings.config().targets().orElseThrow(), edit.modules(), settings)
                        .linearsOnly("BOTTLENECK", settings)
                : byNames();
        List<Integer> sizes = new ArrayList<>();
        for (LinearModule target : targets.linears()) {
            sizes.add(apply(target));
        }
        List<Integer> distinct = sizes.stream().distinct().sorted().toList();
        return "bottleneck " + distinct.getFirst() + (distinct.size() > 1 ? " to " + distinct.getLast() : "")
                + " behind " + targets.counted();
    }

    private Targets byNames() {
        List<String> names = new ArrayList<>();
        if (json.path("mh_adapter").asBoolean()) {
            names.addAll(DefaultTargets.attentionOutputs(edit.modules()));
        }
        if (json.path("output_adapter").asBoolean()) {
            names.addAll(DefaultTargets.feedforwardOutputs(edit.modules()));
        }
        if (names.isEmpty()) {
            throw new InvalidOptionException(
                    "the Linears that end attention and feedforward parts are not known for this model",
                    settings.where("target_modules"),
                    "list them in target_modules, as `octet inspect` names them");
        }
        return new Targets(
                edit.modules().linears().stream()
                        .filter(m -> names.contains(m.name()))
                        .toList(),
                List.of(),
                List.of());
    }

    private int apply(LinearModule target) {
        String module = target.name();
        int width = new BaseWeight(edit.constant(target.weight()), !target.transB()).out();
        int narrow = Math.max(1, (int) (width / json.path("reduction_factor").asDouble()));
        boolean bert = json.path("init_weights").asText().equals("bert");
        String downWeight = edit.parameter(
                PeftKeys.key(module, PeftRole.DOWN_WEIGHT),
                Shape.of(narrow, width),
                bert ? InitialValues.normal(BERT) : InitialValues.kaimingUniform());
        String downBias =
                edit.parameter(PeftKeys.key(module, PeftRole.DOWN_BIAS), Shape.of(narrow), InitialValues.ZEROS);
        String upWeight = edit.parameter(
                PeftKeys.key(module, PeftRole.UP_WEIGHT),
                Shape.of(width, narrow),
                bert ? InitialValues.normal(BERT) : InitialValues.ZEROS);
        String upBias = edit.parameter(PeftKeys.key(module, PeftRole.UP_BIAS), Shape.of(width), InitialValues.ZEROS);
        Behind behind = edit.behind(edit.node(target));
        String h = behind.output();
        String down = behind.linear(module + ".adapter_down", List.of(h, downWeight, downBias));
        String active = activation(behind, module, down);
        String up = behind.linear(module + ".adapter_up", List.of(active, upWeight, upBias));
        double scaling = json.path("scaling").asDouble();
        String scaled = scaling == 1
                ? up
                : behind.op(
                        module + ".adapter_scaled",
                        "Mul",
                        List.of(up, edit.number(module + ".adapter_scaling", scaling)));
        behind.result(module + ".adapter", "Add", List.of(h, scaled));
        return narrow;
    }

    private String activation(Behind behind, String module, String x) {
        String name = module + ".adapter_act";
        return switch (json.path("non_linearity").asText()) {
            case "relu" -> behind.op(name, "Relu", List.of(x));
            case "tanh" -> behind.op(name, "Tanh", List.of(x));
            case "gelu" -> behind.op(name, "Gelu", List.of(x));
            default ->
                behind.op(name, "Mul", List.of(x, behind.op(module + ".adapter_sigmoid", "Sigmoid", List.of(x))));
        };
    }
}
