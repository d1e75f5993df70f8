package dev.octet.cli;

import dev.octet.formats.OctetVersion;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.file.MappedFile;
import dev.octet.formats.file.ShortenedFileException;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import java.util.stream.Stream;

/** The program: picks the verb, runs it, turns failures into three lines and an exit code. */
public final class Octet {
    /** Every verb, in the order of the help page. One more verb: its class, and a line here. */
    static final List<Command> COMMANDS = List.of(
            new QuickstartCommand(),
            new InspectCommand(),
            new CalibrateCommand(),
            new QuantizeCommand(),
            new DequantizeCommand(),
            new ConvertCommand(),
            new MergeCommand(),
            new VerifyCommand(),
            new DiffCommand(),
            new EvaluateCommand(),
            new SensitivityCommand(),
            new GenerateCommand(),
            new ConfigCommand(),
            new PlanCommand(),
            new TrainCommand(),
            new ReportCommand(),
            new DoctorCommand(),
            new ExportCommand(),
            new GradientCommand(),
            new CompletionCommand());

    /** Native kernels take more than half a megabyte, and {@code -Xss} may leave a thread that says nothing less than that. */
    private static final long STACK_BYTES = 8L << 20;

    private Octet() {}

    /** What {@link Start} hands over to. Ends the process with the exit code of {@link #run}. */
    public static void main(String[] args) {
        NativeStderr.restore(System.getenv());
        PrintStream out = stream(FileDescriptor.out);
        PrintStream err = stream(FileDescriptor.err);
        Map<String, String> environment = System.getenv();
        Screen screen = new Screen(
                out,
                err,
                TextStyle.of(System.getProperty("octet.out"), environment),
                TextStyle.of(System.getProperty("octet.err"), environment),
                debugLevel(environment));
        Ending.install(screen);
        ExitCode code = onLargeStack(() -> run(Arrays.asList(args), screen));
        Ending.over();
        out.flush();
        err.flush();
        System.exit(code.number());
    }

    /** On a thread whose stack does not depend on {@code -Xss}. */
    private static ExitCode onLargeStack(Supplier<ExitCode> verb) {
        AtomicReference<ExitCode> code = new AtomicReference<>(ExitCode.BUG);
        Thread thread = new Thread(null, () -> code.set(verb.get()), "octet", STACK_BYTES);
        thread.start();
        boolean ended = false;
        while (!ended) {
            try {
                thread.join();
                ended = true;
            } catch (InterruptedException e) {
                thread.interrupt(); // whoever wants the process to stop means the verb
            }
        }
        return Objects.requireNonNull(code.get());
    }

    private static PrintStream stream(FileDescriptor descriptor) {
        // buffered and UTF-8 whatever the locale; println flushes
        return new PrintStream(new FileOutputStream(descriptor), true, StandardCharsets.UTF_8);
    }

    /** The number in OCTET_DEBUG; 1 for any other text, 0 when unset or empty. */
    private static int debugLevel(Map<String, String> environment) {
        String value = environment.getOrDefault("OCTET_DEBUG", "");
        return value.isEmpty() ? 0 : value.matches("\\d{1,3}") ? Integer.parseInt(value) : 1;
    }

    /** Runs one command line and prints what comes of it. Never throws for anything that an input can cause. */
    public static ExitCode run(List<String> words, Screen screen) {
        Screen colored = screen.with(Flags.color(words));
        if (words.contains("--" + Flags.JSON.getLongOpt())) {
            return answered(words, colored.forPrograms());
        }
        Screen folded = colored.folded();
        ExitCode code = answered(words, folded);
        folded.out().flush();
        folded.err().flush();
        return code;
    }

    private static ExitCode answered(List<String> words, Screen screen) {
        long mapped = MappedFile.count();
        try {
            ExitCode code = screen.outStyle().page(() -> dispatch(words, screen));
            Optional<ShortenedFileException> shortened = MappedFile.shortened(mapped);
            return shortened.isPresent() ? failed(shortened.get(), screen) : code;
        } catch (IOException | RuntimeException | Error e) {
            // whatever went wrong, a file that lost its end while it was read is why
            Optional<ShortenedFileException> shortened = MappedFile.shortened(mapped);
            shortened.ifPresent(s -> s.addSuppressed(e));
            Throwable why = shortened.isPresent() ? shortened.get() : e;
            if (words.contains("--" + Flags.JSON.getLongOpt())) {
                screen.out().println(Json.answer("error", Failure.of(why).answer()));
            }
            return failed(why, screen);
        }
    }

    private static ExitCode failed(Throwable thrown, Screen screen) {
        Failure failure = Failure.of(thrown);
        screen.err().println(failure.text(screen.errStyle()));
        if (screen.debug() > 0) {
            thrown.printStackTrace(screen.err());
        }
        return failure.code();
    }

    private static ExitCode dispatch(List<String> words, Screen screen) throws IOException {
        String verb = words.isEmpty() ? "--help" : words.getFirst();
        return switch (verb) {
            case "--version", "-V", "version" -> {
                screen.out().println("octet " + OctetVersion.current());
                yield ExitCode.OK;
            }
            case "--help", "-h", "help" -> help(words.subList(words.isEmpty() ? 0 : 1, words.size()), screen);
            default -> verb(verb, words.subList(1, words.size()), screen);
        };
    }

    private static ExitCode help(List<String> words, Screen screen) {
        screen.out().print(words.isEmpty() ? HelpPage.ofAll(COMMANDS) : HelpPage.of(command(words.getFirst())));
        return ExitCode.OK;
    }

    private static ExitCode verb(String name, List<String> words, Screen screen) throws IOException {
        Command command = command(name);
        if (words.contains("--help") || words.contains("-h")) {
            screen.out().print(HelpPage.of(command));
            return ExitCode.OK;
        }
        Arguments arguments = Arguments.parse(command, words);
        command.checkOperands(arguments);
        arguments.progressStyle(screen); // a wrong style is refused even where no progress is shown
        if (command.writes(arguments)) {
            arguments.paths().requireApart();
        }
        return command.run(arguments, screen);
    }

    private static Command command(String name) {
        return COMMANDS.stream()
                .filter(c -> c.name().equals(name))
                .findFirst()
                .orElseThrow(() -> new InvalidOptionException(
                        (name.startsWith("-") ? "unknown option " : "unknown verb ") + name,
                        "first argument of octet",
                        FieldWords.advice(
                                name,
                                FieldWords.VERBS,
                                Stream.concat(COMMANDS.stream().map(Command::name), Stream.of("--help", "--version"))
                                        .toList(),
                                "",
                                "octet --help lists the verbs")));
    }
}
