package dev.octet.converter.runtime;

import dev.octet.formats.OctetVersion;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.file.TemporaryFolder;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.gptq.SecondMoments;
import dev.octet.quant.gptq.SecondMoments.Held;
import dev.octet.quant.gptq.SecondMomentsFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalInt;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The second moments of a calibration that goes on: those of the values that the current piece computes are in memory, those of the pieces
 * before lie in files, {@code after-<position>.moments}. A run in one piece writes them now and then, {@code samples-<count>.moments}, and goes on
 * from there when it was interrupted. The files lie with those of {@link PieceState}, which removes them.
 */
final class MomentSums implements AutoCloseable {
    private static final Pattern SAMPLES = Pattern.compile("samples-(\\d{1,9})\\.moments");
    private static final Pattern PIECE = Pattern.compile("after-(\\d{1,9})\\.moments");
    /** Writing takes at most this share of the time. */
    private static final int WRITING = 20;

    private final Map<String, Integer> channels;
    private final Path folder;
    private final @Nullable TemporaryFolder temporary;
    private final Map<String, String> origin;
    private final Map<String, SecondMoment> current = new LinkedHashMap<>();
    private int from;
    private long written = System.nanoTime();
    private long writing;

    private MomentSums(
            Map<String, Integer> channels,
            Path folder,
            @Nullable TemporaryFolder temporary,
            Map<String, String> origin) {
        this.channels = channels;
        this.folder = folder;
        this.temporary = temporary;
        this.origin = origin;
    }

    /**
     * Moments of values of so many channels.
     *
     * @param checkpoint as for {@link PieceState#open}; null to keep nothing
     * @param origin metadata that name the model and the data
     */
    static MomentSums open(Map<String, Integer> channels, @Nullable Path checkpoint, Map<String, String> origin)
            throws IOException {
        TemporaryFolder temporary = checkpoint == null ? TemporaryFolder.create("moments") : null;
        Path folder = temporary == null ? PieceState.folder(Objects.requireNonNull(checkpoint)) : temporary.path();
        return new MomentSums(channels, folder, temporary, origin);
    }

    /** Bytes that each value's moment takes in memory. */
    static Map<String, Long> bytes(Map<String, Integer> channels) {
        Map<String, Long> bytes = new HashMap<>();
        channels.forEach((value, k) -> bytes.put(value, 4L * k * (k + 1L) + 512L * k));
        return bytes;
    }

    /** The most samples of which moments of all values were kept by an interrupted run. */
    OptionalInt samples() throws IOException {
        int most = 0;
        for (Path file : files()) {
            Matcher m = SAMPLES.matcher(file.getFileName().toString());
            if (m.matches() && Integer.parseInt(m.group(1)) > most && isOurs(file)) {
                most = Integer.parseInt(m.group(1));
            }
        }
        return most == 0 ? OptionalInt.empty() : OptionalInt.of(most);
    }

    /** Whether moments of so many samples were kept. */
    boolean has(int samples) throws IOException {
        return Files.exists(ofSamples(samples)) && isOurs(ofSamples(samples));
    }

    private boolean isOurs(Path file) throws IOException {
        try {
            SecondMoments.Contents contents = SecondMoments.contents(file);
            return contents.metadata().equals(origin)
                    && contents.byName().keySet().equals(channels.keySet());
        } catch (OctetException e) { // damaged, or of another version: taken again
            return false;
        }
    }

    private Path ofSamples(int samples) {
        return folder.resolve("samples-" + samples + ".moments");
    }

    private List<Path> files() throws IOException {
        if (!Files.isDirectory(folder)) {
            return List.of();
        }
        try (Stream<Path> files = Files.list(folder)) {
            return files.sorted().toList();
        }
    }

    /** Goes on from the moments of so many samples; 0 for the beginning. */
    void startFrom(int samples) {
        from = samples;
    }

    /** Begins with these values, those among them that have channels. */
    void begin(Collection<String> values) throws IOException {
        current.clear();
        if (from == 0) {
            for (String value : values) {
                Integer k = channels.get(value);
                if (k != null) {
                    current.put(value, new SecondMoment(k));
                }
            }
            return;
        }
        try (SecondMomentsFile file = SecondMomentsFile.open(ofSamples(from))) {
            for (String value : values) {
                if (channels.containsKey(value)) {
                    current.put(value, file.read(value));
                }
            }
        }
    }

    /** Adds a value of a batch where it has a moment; several threads may add to several values. */
    void add(String value, Tensor tensor, long rowLength, BitSet kept) {
        SecondMoment moment = current.get(value);
        if (moment != null) {
            moment.add(tensor.bytes(), rowLength, kept);
        }
    }

    /** Keeps the moments of the piece that ends at a position, and forgets them. */
    void reached(int position) throws IOException {
        write(folder.resolve("after-" + position + ".moments"));
        current.clear();
    }

    /** Whether it is time to keep what there is. */
    boolean isDue() {
        return System.nanoTime() - written >= WRITING * writing;
    }

    /** Keeps the moments of the first samples of a run in one piece; {@link #forgetBefore} follows. */
    void keep(int samples) throws IOException {
        long start = System.nanoTime();
        write(ofSamples(samples));
        written = System.nanoTime();
        writing = written - start;
    }

    private void write(Path file) throws IOException {
        Files.createDirectories(folder);
        new SecondMoments(current, origin).write(file);
    }

    /** Removes the moments of fewer samples. */
    void forgetBefore(int samples) throws IOException {
        for (Path file : files()) {
            Matcher m = SAMPLES.matcher(file.getFileName().toString());
            if (m.matches() && Integer.parseInt(m.group(1)) < samples) {
                Files.delete(file);
            }
        }
    }

    /**
     * Writes all moments, those of earlier pieces and the current ones, one at a time.
     *
     * @param taps for the names; the first tap of a value names its tensor
     * @param metadata of the file
     */
    void writeAll(Path target, List<Tap> taps, Map<String, String> metadata) throws IOException {
        Map<String, Path> where = new HashMap<>();
        Map<String, Held> known = new HashMap<>();
        for (Path file : files()) {
            if (PIECE.matcher(file.getFileName().toString()).matches()) {
                SecondMoments.contents(file).byName().forEach((value, held) -> {
                    where.put(value, file);
                    known.put(value, held);
                });
            }
        }
        current.forEach((value, m) -> known.put(value, new Held(m.size(), m.rows())));
        Map<String, String> values = new LinkedHashMap<>();
        Map<String, String> first = new HashMap<>();
        Map<String, String> same = new LinkedHashMap<>();
        Map<String, Held> held = new LinkedHashMap<>();
        for (Tap tap : taps) {
            Held of = known.get(tap.value());
            if (of == null || tap.channels() == 0) {
                continue;
            }
            String before = first.putIfAbsent(tap.value(), tap.name());
            if (before == null) {
                held.put(tap.name(), of);
                values.put(tap.name(), tap.value());
            } else {
                same.put(tap.name(), before);
            }
        }
        SecondMoments.write(target, new SecondMoments.Contents(OctetVersion.current(), held, same, metadata), name -> {
            String value = values.getOrDefault(name, name);
            SecondMoment here = current.get(value);
            if (here != null) {
                return here;
            }
            try (SecondMomentsFile file = SecondMomentsFile.open(Objects.requireNonNull(where.get(value)))) {
                return file.read(value);
            }
        });
    }

    @Override
    public void close() throws IOException {
        if (temporary != null) {
            temporary.close();
        }
    }
}
