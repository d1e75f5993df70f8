package dev.octet.cli;

import dev.octet.formats.error.Nearest;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import org.apache.commons.cli.Option;

/** {@code octet completion SHELL}: the script with which a shell completes verbs, options and their values. */
final class CompletionCommand implements Command {
    private static final Map<String, Function<List<Command>, String>> SHELLS = new TreeMap<>(Map.of(
            "bash", CompletionScript::bash,
            "zsh", CompletionScript::zsh,
            "fish", CompletionScript::fish));

    /** What {@code --json} prints. */
    record Answer(String shell, String script) {}

    @Override
    public String name() {
        return "completion";
    }

    @Override
    public String summary() {
        return "Print the script with which bash, zsh or fish completes verbs and options.";
    }

    @Override
    public List<String> operands() {
        return List.of("SHELL");
    }

    @Override
    public List<String> operandWords() {
        return List.copyOf(SHELLS.keySet());
    }

    @Override
    public List<Option> options() {
        return List.of();
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet completion bash > ~/.local/share/bash-completion/completions/octet",
                "octet completion zsh > ~/.zfunc/_octet",
                "octet completion fish > ~/.config/fish/completions/octet.fish");
    }

    @Override
    public boolean writes(Arguments arguments) {
        return false;
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) {
        String shell = arguments.operand(0).toString();
        Function<List<Command>, String> script = SHELLS.get(shell);
        if (script == null) {
            throw arguments.usage("unknown shell '" + shell + "'", Nearest.advice(shell, SHELLS.keySet()));
        }
        String text = script.apply(Octet.COMMANDS);
        screen.forPrograms().answer(arguments, new Answer(shell, text), () -> text);
        return ExitCode.OK;
    }
}
