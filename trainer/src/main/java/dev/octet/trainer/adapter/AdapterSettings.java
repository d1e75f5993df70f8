package dev.octet.trainer.adapter;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.peft.LoraConfig;
import dev.octet.formats.peft.ModuleKind;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.trainer.precision.LinearModule;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/**
 * What {@code adapter:} in a run's configuration says.
 *
 * @param config as {@code adapter_config.json} has it, with PEFT's names and defaults
 * @param from PEFT folder of the adapter that is trained on; empty for a new one
 */
public record AdapterSettings(PeftConfig config, Optional<Path> from) {
    /**
     * The graph of a base with the adapter in it.
     *
     * @param base canonical, with concrete or open shapes, ties restored
     * @param initial where the adapter's parameters start
     * @throws InvalidOptionException when targets match nothing, or a rank is larger than a dimension
     * @throws dev.octet.formats.error.InvalidDataException when an adapter that is continued has other parameters
     */
    public AdaptedGraph adapt(GraphModel base, InitialValues initial) {
        AdapterEdit edit = new AdapterEdit(base, initial);
        switch (config.type()) {
            case LORA -> lora(edit, config.lora());
            default ->
                throw new InvalidOptionException(
                        "adapters of type " + config.type() + " are not trained",
                        "adapter.peft_type",
                        "use LORA");
        }
        return edit.build();
    }

    private static void lora(AdapterEdit edit, LoraConfig lora) {
        BaseModules modules = edit.modules();
        List<LinearModule> targets = modules.linears().stream()
                .filter(m -> lora.targetModules()
                        .matches(m.name(), modules.kinds().getOrDefault(m.name(), ModuleKind.LINEAR)))
                .toList();
        if (targets.isEmpty()) {
            throw new InvalidOptionException(
                    "target_modules match none of the " + modules.linears().size() + " Linears",
                    "adapter.target_modules",
                    modules.linears().isEmpty()
                            ? "the model has no Linears"
                            : "name the end of a module's path, such as "
                                    + lastName(modules.linears().getFirst().name()) + " of "
                                    + modules.linears().getFirst().name());
        }
        new Lora(lora).apply(edit, targets);
    }

    private static String lastName(String module) {
        return module.substring(module.lastIndexOf('.') + 1);
    }
}
