package dev.octet.formats.peft;

import java.util.List;

/** The keys of an IA3 adapter (Liu et al. 2022, arXiv:2205.05638 §3.3), with PEFT's defaults. */
public final class Ia3Config {
    private final TargetModules targetModules;
    private final List<String> feedforwardModules;
    private final List<String> modulesToSave;
    private final List<PythonRegex> feedforwardRegex;
    private final boolean fanInFanOut;
    private final boolean initIa3Weights;

    Ia3Config(ConfigKeys keys) {
        this.targetModules = new TargetModules(keys);
        this.feedforwardModules = keys.namesOrName("feedforward_modules").orElse(List.of());
        boolean text = keys.json().path("feedforward_modules").isTextual();
        this.feedforwardRegex = text
                ? List.of(new PythonRegex(feedforwardModules.getFirst(), keys.where("feedforward_modules")))
                : List.of();
        this.modulesToSave = keys.namesOrName("modules_to_save").orElse(List.of());
        this.fanInFanOut = keys.flag("fan_in_fan_out", false);
        this.initIa3Weights = keys.flag("init_ia3_weights", true);
    }

    /** Which modules are changed. */
    public TargetModules targetModules() {
        return targetModules;
    }

    /** {@code feedforward_modules} as written: a list, or one regular expression. */
    public List<String> feedforwardModules() {
        return feedforwardModules;
    }

    /**
     * Whether the factors of a module multiply its input, [1, in], instead of its output, [out, 1]. PEFT compares the ends of paths here
     * without asking for a dot.
     */
    public boolean isFeedforward(String module) {
        return feedforwardRegex.isEmpty()
                ? feedforwardModules.stream().anyMatch(module::endsWith)
                : feedforwardRegex.getFirst().matches(module);
    }

    /** Names of modules that are trained whole. */
    public List<String> modulesToSave() {
        return modulesToSave;
    }

    /** Whether the weights of the target modules are [in, out], as those of GPT-2's Conv1D. */
    public boolean fanInFanOut() {
        return fanInFanOut;
    }

    /** Whether all factors begin as 1; otherwise they begin at random. */
    public boolean initIa3Weights() {
        return initIa3Weights;
    }
}
