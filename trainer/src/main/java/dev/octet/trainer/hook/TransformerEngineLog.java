package dev.octet.trainer.hook;

import static java.util.Objects.requireNonNull;

import dev.octet.trainer.observe.TensorReport;
import java.io.BufferedWriter;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Clock;
import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The log files of Transformer Engine's debug tools (nvidia-dlfw-inspect, logging.py at commit dc19d10): one line for each statistic
 * in {@code nvdlfw_inspect_statistics_logs}, and in {@code nvdlfw_inspect_logs} which features work on which layers. When a run resumes, the lines of the iterations it repeats are removed.
 */
public final class TransformerEngineLog implements TrainingHook {
    /** Its folders in a run's: of messages and of statistics. */
    public static final List<String> FOLDERS = List.of("nvdlfw_inspect_logs", "nvdlfw_inspect_statistics_logs");

    private static final String NAME = "nvdlfw_inspect_globalrank-0.log";

    private static final Pattern ITERATION = Pattern.compile(" \t\t\t\t iteration=(\\d{1,18}) \t\t\t\t value=");
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss,SSS", Locale.ROOT);
    private static final int DIGITS = 6;

    private final Path folder;
    private final long firstIteration;
    private final boolean parity;
    private final List<String> messages;
    private final Clock clock;
    private @Nullable BufferedWriter out;

    /**
     * Creates the hook.
     *
     * @param folder of the run
     * @param firstIteration the iteration of the run's first step
     * @param parity whether values have four decimals, so that 1e-6 is 0.0000, as Transformer Engine writes them; otherwise six digits
     * @param messages which features work on which layers
     */
    public TransformerEngineLog(Path folder, long firstIteration, boolean parity, List<String> messages, Clock clock) {
        this.folder = folder;
        this.firstIteration = firstIteration;
        this.parity = parity;
        this.messages = List.copyOf(messages);
        this.clock = clock;
    }

    @Override
    public void runStarted(RunStart start, RunControl control) throws IOException {
        Path statistics = file(folder, 1);
        Path log = file(folder, 0);
        Files.createDirectories(requireNonNull(statistics.getParent()));
        Files.createDirectories(requireNonNull(log.getParent()));
        cut(statistics, firstIteration + start.firstStep() - 1);
        out = Files.newBufferedWriter(statistics, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        StringBuilder text = new StringBuilder();
        messages.forEach(m -> text.append(time()).append(" - INFO - ").append(m).append('\n'));
        Files.writeString(log, text, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    @Override
    public void rolledBack(long step) throws IOException {
        if (out != null) {
            out.close();
            Path statistics = file(folder, 1);
            cut(statistics, firstIteration + step);
            out = Files.newBufferedWriter(statistics, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
    }

    private static Path file(Path folder, int kind) {
        return folder.resolve(FOLDERS.get(kind)).resolve(NAME);
    }

    /** Keeps the lines of iterations before {@code first}; also drops a line that a killed process left incomplete. */
    private static void cut(Path file, long first) throws IOException {
        if (!Files.exists(file)) {
            return;
        }
        StringBuilder kept = new StringBuilder();
        for (String line : Files.readAllLines(file)) {
            Matcher m = ITERATION.matcher(line);
            if (m.find() && Long.parseLong(m.group(1)) < first) {
                kept.append(line).append('\n');
            }
        }
        Path next = file.resolveSibling(file.getFileName() + ".tmp");
        Files.write(next, kept.toString().getBytes(StandardCharsets.UTF_8));
        Files.move(next, file, StandardCopyOption.REPLACE_EXISTING);
    }

    private String time() {
        return LocalDateTime.now(clock).format(TIME);
    }

    @Override
    public void tensorsObserved(ObservationReport report) throws IOException {
        if (out == null) {
            return;
        }
        for (TensorReport tensor : report.tensors()) {
            for (Map.Entry<String, Double> value : tensor.values().entrySet()) {
                out.write(time() + " - INFO - "
                        + line(tensor.name(value.getKey()), report.iteration(), value.getValue(), parity) + "\n");
            }
        }
        out.flush(); // readers of a live run see each step
    }

    /** A statistic as Transformer Engine logs it, behind the time. */
    static String line(String name, long iteration, double value, boolean parity) {
        String number = parity && Double.isFinite(value) ? String.format(Locale.ROOT, "%.4f", value) : shortest(value);
        String inOneLine = name.replaceAll("\\p{Cntrl}", "_"); // names come from models
        return String.format(Locale.ROOT, "%s \t\t\t\t iteration=%06d \t\t\t\t value=%s", inOneLine, iteration, number);
    }

    /** A number as C's {@code %g} prints it: six digits without zeros behind, an exponent below -4 or from 6 on. */
    static String shortest(double value) {
        if (!Double.isFinite(value)) {
            return Double.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
        }
        if (value == 0) {
            return "0";
        }
        BigDecimal rounded = new BigDecimal(value)
                .round(new MathContext(DIGITS, RoundingMode.HALF_EVEN))
                .stripTrailingZeros();
        int exponent = rounded.precision() - rounded.scale() - 1;
        if (exponent >= -4 && exponent < DIGITS) {
            return rounded.toPlainString();
        }
        String digits = rounded.movePointLeft(exponent).toPlainString();
        return digits + String.format(Locale.ROOT, "e%s%02d", exponent < 0 ? "-" : "+", Math.abs(exponent));
    }

    @Override
    public void runEnded(RunEnd end) throws IOException {
        if (out != null) {
            out.close();
        }
    }
}
