package dev.octet.cli;

import dev.octet.pipeline.ConfigReading;
import dev.octet.trainer.dialect.Fate;
import dev.octet.trainer.dialect.Reading;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.commons.cli.Option;

/** {@code octet config FILE}: what a configuration of another library really does, and the configuration here that it becomes. */
final class ConfigCommand implements Command {
    private static final PathOption YAML = PathOption.output(
            "TRAIN.yaml", "write the configuration it becomes (default: print it); not where a key is refused");

    @Override
    public String name() {
        return "config";
    }

    @Override
    public String summary() {
        return "Say what a config of DeepSpeed, Accelerate or transformers really does; exit 1 when a key is refused.";
    }

    @Override
    public List<String> operands() {
        return List.of("FILE");
    }

    @Override
    public List<Option> options() {
        return List.of(YAML, TrainCommand.HF_ARGS, TrainCommand.DEEPSPEED_VERSION, TrainCommand.DEVICE, Flags.FORCE);
    }

    @Override
    public List<String> examples() {
        return List.of("octet config ds_config.json", "octet config ds_config.json --hf-args args.json -o train.yaml");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        ConfigReading.Request request =
                ConfigReading.Request.of(arguments.operand(0)).withDevice(TrainCommand.device(arguments));
        arguments.requireInputs();
        Optional<Path> arg = arguments.path(TrainCommand.HF_ARGS);
        if (arg.isPresent()) {
            request = request.withArguments(arg.get());
        }
        Optional<String> version = arguments.text(TrainCommand.DEEPSPEED_VERSION);
        if (version.isPresent()) {
            request = request.withVersion(version.get());
        }
        Optional<Path> output = arguments.outputFile(YAML);
        if (output.isPresent()) {
            request = request.withOutput(output.get());
        }
        ConfigReading.Result result = ConfigReading.run(request);
        screen.answer(arguments, result, () -> page(result));
        return result.honoured() ? ExitCode.OK : ExitCode.CHECK_FAILED;
    }

    private static String page(ConfigReading.Result result) {
        StringBuilder page = new StringBuilder(new Table()
                .row("file", result.file() + ", a configuration of " + result.library())
                .row("keys", counts(result))
                .text(0));
        Table table = new Table().heading("key", "here");
        result.keys().forEach(k -> table.row(k.key() + ": " + k.value() + line(k), Table.cell(text(k), tone(k))));
        page.append('\n').append(table.text(0));
        for (Reading.Problem problem : result.problems()) {
            page.append('\n')
                    .append("error: ")
                    .append(Printable.of(problem.what()))
                    .append("\n  where: ")
                    .append(Printable.of(problem.where()))
                    .append("\n  fix:   ")
                    .append(Printable.of(problem.fix()))
                    .append('\n');
        }
        if (result.output() == null) {
            page.append('\n').append(TextStyle.heading("octet train")).append(" --config:\n\n");
            result.yaml().lines().forEach(l -> page.append(Printable.of(l)).append('\n'));
        } else {
            page.append("\nwritten: ").append(Printable.of(result.output())).append('\n');
        }
        return page.toString();
    }

    private static String counts(ConfigReading.Result result) {
        return Stream.of(Fate.values())
                        .filter(f -> result.count(f) > 0)
                        .map(f -> result.count(f) + " " + f.text())
                        .collect(Collectors.joining(", "))
                + (result.problems().isEmpty()
                        ? ""
                        : ", " + result.problems().size() + (result.problems().size() == 1 ? " error" : " errors"));
    }

    private static String line(ConfigReading.Key key) {
        return key.line() == null ? " (default)" : " (line " + key.line() + ")";
    }

    private static String text(ConfigReading.Key key) {
        String fate = key.fate() + (key.becomes().isEmpty() ? "" : ": " + key.becomes());
        return key.reason().isEmpty() ? fate : fate + ". " + key.reason();
    }

    private static Tone tone(ConfigReading.Key key) {
        return key.fate().equals(Fate.REFUSED.text()) ? Tone.BAD : Tone.PLAIN;
    }
}
