package dev.octet.cli;

import dev.octet.formats.ModelFile;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.Nearest;
import dev.octet.formats.file.RunPaths;
import dev.octet.formats.onnx.OnnxWriteOptions;
import dev.octet.formats.tensor.FloatName;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.TaskListener;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.pipeline.run.ShellWord;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.commons.cli.AlreadySelectedException;
import org.apache.commons.cli.AmbiguousOptionException;
import org.apache.commons.cli.CommandLine;
import org.apache.commons.cli.DefaultParser;
import org.apache.commons.cli.MissingArgumentException;
import org.apache.commons.cli.Option;
import org.apache.commons.cli.Options;
import org.apache.commons.cli.ParseException;
import org.apache.commons.cli.UnrecognizedOptionException;

/** What the user typed after the verb, checked: every getter throws {@link InvalidOptionException} naming what would be valid. */
final class Arguments {
    private final Command command;
    private final CommandLine line;
    private final List<String> words;

    private Arguments(Command command, CommandLine line, List<String> words) {
        this.command = command;
        this.line = line;
        this.words = words;
    }

    /**
     * Parses {@code words} against the options of {@code command}. Abbreviated options are not accepted: a script that uses one
     * would break when the next option is added.
     */
    static Arguments parse(Command command, List<String> words) {
        List<Option> known = Flags.of(command);
        Options options = new Options();
        // option objects carry the values they were given, so each parse gets its own
        known.forEach(o -> options.addOption((Option) o.clone()));
        DefaultParser parser =
                DefaultParser.builder().setAllowPartialMatching(false).get();
        try {
            CommandLine line = parser.parse(options, words.toArray(String[]::new));
            return new Arguments(command, line, List.copyOf(words));
        } catch (ParseException e) {
            throw explain(command, known, e);
        }
    }

    private static InvalidOptionException explain(Command command, List<Option> known, ParseException e) {
        List<String> names = known.stream().map(Option::getLongOpt).toList();
        String where = "octet " + command.name();
        return switch (e) {
            case AmbiguousOptionException a ->
                new InvalidOptionException(
                        "ambiguous option " + a.getOption(), where, "one of " + a.getMatchingOptions(), e);
            case UnrecognizedOptionException u -> {
                String typed = u.getOption().split("=", 2)[0];
                String fix = FieldWords.advice(
                        typed.replaceFirst("^-+", ""),
                        FieldWords.OPTIONS,
                        names,
                        "--",
                        "octet " + command.name() + " --help lists the options");
                yield new InvalidOptionException("unknown option " + typed, where, fix, e);
            }
            case MissingArgumentException m -> {
                Option option = m.getOption();
                yield new InvalidOptionException(
                        "option " + typed(option) + " needs a value",
                        where,
                        "give it as " + typed(option) + " " + option.getArgName(),
                        e);
            }
            case AlreadySelectedException a ->
                new InvalidOptionException("options exclude each other: " + a.getMessage(), where, "give one", e);
            default ->
                new InvalidOptionException(
                        String.valueOf(e.getMessage()), where, "see octet " + command.name() + " --help", e);
        };
    }

    private static String typed(Option option) {
        return "--" + option.getLongOpt();
    }

    /** Checks that as many operands were given as the verb takes. */
    Arguments requireOperands() {
        List<String> wanted = command.operands();
        List<String> given = line.getArgList();
        if (given.size() < wanted.size()) {
            throw usage(
                    "missing " + String.join(" ", wanted.subList(given.size(), wanted.size())),
                    "usage: octet " + command.name() + " " + String.join(" ", wanted) + " [options]");
        }
        if (given.size() > wanted.size() && !command.takesMore()) {
            String extra = given.get(wanted.size());
            throw usage(
                    "one argument too many: '" + extra + "'",
                    extra.startsWith("-") ? "options come as --name VALUE" : "quote names that contain spaces");
        }
        return this;
    }

    /** An exception about this command line. */
    InvalidOptionException usage(String what, String fix) {
        return new InvalidOptionException(what, where(), fix);
    }

    /** Refuses options that have no meaning here: "--name", a blank and {@code why}. */
    void refuse(List<Option> options, String why, String fix) {
        for (Option option : options) {
            if (has(option)) {
                throw usage(typed(option) + " " + why, fix);
            }
        }
    }

    boolean has(Option option) {
        // asking for an option that the verb does not take is answered with no
        return line.hasOption(option.getLongOpt());
    }

    /** Operand {@code i} as a path. */
    Path operand(int i) {
        return path(line.getArgList().get(i));
    }

    Optional<String> text(Option option) {
        return Optional.ofNullable(line.getOptionValue(option.getLongOpt()));
    }

    /** All values of a repeatable option, in order. */
    List<String> texts(Option option) {
        String[] values = line.getOptionValues(option.getLongOpt());
        return values == null ? List.of() : List.copyOf(Arrays.asList(values));
    }

    Optional<Path> path(PathOption option) {
        return text(option).map(this::path);
    }

    /**
     * What the command line reads and what it writes. Verbs that find more to read, in a configuration, add it and check again.
     *
     * @throws IOException when what is read cannot be looked at
     */
    RunPaths paths() throws IOException {
        RunPaths outputs = RunPaths.none();
        for (Option given : line.getOptions()) {
            if (given instanceof PathOption option && option.way() != PathOption.Way.READ) {
                outputs = written(outputs, option, path(given.getValue()));
            }
        }
        RunPaths paths = outputs;
        for (int i = 0; i < operands() && command.operandWords().isEmpty(); i++) {
            List<String> names = command.operands();
            String name =
                    i < names.size() ? names.get(i) : command.takesMore() ? names.getLast() : "argument " + (i + 1);
            paths = reading(paths, name, operand(i));
        }
        for (Option given : line.getOptions()) {
            if (given instanceof PathOption option && option.way() == PathOption.Way.READ) {
                paths = reading(paths, typed(option), path(given.getValue()));
            }
        }
        return paths;
    }

    private static RunPaths written(RunPaths paths, PathOption option, Path path) {
        if (option.way() == PathOption.Way.ADDED_TO) {
            return paths.adding(typed(option), path, option.entries());
        }
        RunPaths more = paths.writing(typed(option), path);
        return isOnnx(path) ? more.writing(typed(option) + ", its data", dataOf(path)) : more;
    }

    private static RunPaths reading(RunPaths paths, String name, Path path) throws IOException {
        if (name.equals(Command.RUN)) { // other things may lie in it, such as what was exported from it
            RunPaths more = paths;
            for (String entry : RunFolder.ENTRIES) {
                more = more.reading(name, path.resolve(entry));
            }
            return more;
        }
        return ModelFile.reading(paths, name, path);
    }

    private static boolean isOnnx(Path path) {
        return path.toString().endsWith(".onnx");
    }

    private static Path dataOf(Path model) {
        return OnnxWriteOptions.defaults().dataFile(model);
    }

    /** The value of an option that must be given. */
    Path requiredPath(PathOption option) {
        return path(option)
                .orElseThrow(() -> usage(
                        "missing " + typed(option) + " " + option.getArgName(),
                        "say where: " + typed(option) + " " + option.getArgName()));
    }

    /**
     * Refuses operands and options for inputs that are not there.
     *
     * @throws NoSuchFileException naming the first of them
     */
    void requireInputs() throws NoSuchFileException {
        List<Path> inputs = new ArrayList<>();
        for (int i = 0; i < operands(); i++) {
            inputs.add(operand(i));
        }
        for (Option given : line.getOptions()) {
            if (given instanceof PathOption option && option.way() == PathOption.Way.READ) {
                inputs.add(path(given.getValue()));
            }
        }
        for (Path input : inputs) {
            if (Files.notExists(input)) {
                throw new NoSuchFileException(input.toString());
            }
        }
    }

    /** Where to write: {@code --output}, which must not exist yet unless {@code --force} was given. */
    Path outputFile() {
        Path output = requiredPath(Flags.OUTPUT);
        refuseExisting(output);
        return output;
    }

    /** The value of an option for a file that is written next to the result; as {@link #outputFile}. */
    Optional<Path> outputFile(PathOption option) {
        Optional<Path> file = path(option);
        file.ifPresent(this::refuseExisting);
        if (file.filter(Files::isDirectory).isPresent()) {
            throw usage("'" + file.get() + "' is a folder", "give " + typed(option) + " the name of a file");
        }
        return file;
    }

    /** Refuses to overwrite without {@code --force}, before any work is done. */
    void refuseExisting(Path output) {
        job(TaskListener.NONE).refuseExisting(output);
    }

    /** Number of operands given. */
    int operands() {
        return line.getArgList().size();
    }

    private Path path(String text) {
        try {
            return Path.of(text);
        } catch (InvalidPathException e) {
            boolean locale = text.chars().anyMatch(c -> c > 0x7e);
            throw new InvalidOptionException(
                    locale
                            ? "the locale of this process has no letters for the name '" + text + "', only "
                                    + System.getProperty("sun.jnu.encoding")
                            : "not a path: " + text,
                    where(),
                    locale ? "set LC_ALL=C.UTF-8 and run again" : "use a name this system allows",
                    e);
        }
    }

    /** An integer from {@code min} to {@code max}, or {@code fallback} when the option was not given. */
    int integer(Option option, int fallback, int min, int max) {
        String value = line.getOptionValue(option.getLongOpt());
        if (value == null) {
            return fallback;
        }
        try {
            int number = Integer.parseInt(value);
            if (number >= min && number <= max) {
                return number;
            }
        } catch (NumberFormatException e) {
            throw new InvalidOptionException(
                    typed(option) + " needs a whole number, got '" + value + "'",
                    where(),
                    "give one from " + min + " to " + max,
                    e);
        }
        throw usage(typed(option) + " " + value + " is out of range", "give one from " + min + " to " + max);
    }

    /** A number from {@code min} to {@code max}, when the option was given. */
    Optional<Double> number(Option option, double min, double max) {
        String value = line.getOptionValue(option.getLongOpt());
        if (value == null) {
            return Optional.empty();
        }
        try {
            double number = Double.parseDouble(value);
            if (number >= min && number <= max) {
                return Optional.of(number);
            }
        } catch (NumberFormatException e) {
            throw new InvalidOptionException(
                    typed(option) + " needs a number, got '" + value + "'",
                    where(),
                    String.format(Locale.ROOT, "give one from %s to %s", min, max),
                    e);
        }
        throw usage(
                typed(option) + " " + value + " is out of range",
                String.format(Locale.ROOT, "give one from %s to %s", min, max));
    }

    /** One of {@code choices} by its name, a float type in any of its spellings, or {@code fallback} when the option was not given. */
    <T> T choice(Option option, Map<String, T> choices, T fallback) {
        String value = line.getOptionValue(option.getLongOpt());
        if (value == null) {
            return fallback;
        }
        T chosen = choices.get(choices.containsKey(value) ? value : FloatName.normal(value));
        if (chosen == null) {
            throw usage("unknown " + option.getLongOpt() + " '" + value + "'", Nearest.advice(value, choices.keySet()));
        }
        return chosen;
    }

    /** Threads to use: {@code --threads}, or one for each core. */
    int threads() {
        int cores = Runtime.getRuntime().availableProcessors();
        return integer(Flags.THREADS, cores, 1, 4096);
    }

    /** How the verb goes about its work: {@code --threads}, {@code --force}, {@code --dry-run}. */
    Job job(TaskListener listener) {
        return new Job(where(), commandLine(), threads(), has(Flags.FORCE), has(Flags.DRY_RUN), listener);
    }

    /** The words of this command line as a shell reads them back. */
    String commandLine() {
        return Stream.concat(Stream.of(where()), words.stream().map(ShellWord::of))
                .collect(Collectors.joining(" "));
    }

    /** The words behind the verb. */
    List<String> words() {
        return words;
    }

    private String where() {
        return "octet " + command.name();
    }

    /** The name of the verb. */
    String verb() {
        return command.name();
    }

    /** Progress in the style asked for. */
    Progress progress(Screen screen) {
        return new Progress(progressStyle(screen), screen);
    }

    /** How to show progress. */
    ProgressStyle progressStyle(Screen screen) {
        choice(Flags.COLOR, Color.CHOICES, Color.AUTO); // which is followed already, unless it is wrong
        ProgressStyle usual = screen.terminal() ? ProgressStyle.BAR : ProgressStyle.PLAIN;
        ProgressStyle asked = choice(Flags.PROGRESS, ProgressStyle.CHOICES, usual);
        return has(Flags.QUIET) ? ProgressStyle.NONE : asked;
    }
}
