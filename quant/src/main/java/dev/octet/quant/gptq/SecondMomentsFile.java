package dev.octet.quant.gptq;

import dev.octet.formats.ModelFile;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.statistics.DataPart;
import dev.octet.quant.statistics.Statistics;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * An open file of second moments, of which one moment at a time is read: the moments of a model of billions of weights do not fit into memory
 * together.
 *
 * <pre>{@code
 * try (SecondMomentsFile file = SecondMomentsFile.open(Path.of("model.stats.moments"))) {
 *     SecondMoment h = file.read("model.layers.0.mlp.down_proj");
 * }
 * }</pre>
 */
public final class SecondMomentsFile implements AutoCloseable {
    /** Metadata entry with the SHA-256 of the model. */
    public static final String MODEL = "octet.model";

    /** Metadata entry with the number of samples. */
    public static final String SAMPLES = "octet.samples";

    private static final String DATA = "octet.data";
    private static final String ENDING = ".moments";

    private final ModelFile file;
    private final Path path;
    private final SecondMoments.Contents contents;

    private SecondMomentsFile(ModelFile file, Path path, SecondMoments.Contents contents) {
        this.file = file;
        this.path = path;
        this.contents = contents;
    }

    /**
     * Opens a file.
     *
     * @throws InvalidDataException as {@link SecondMoments#read}
     * @throws IOException when it cannot be read
     */
    public static SecondMomentsFile open(Path path) throws IOException {
        ModelFile file = ModelFile.open(path);
        try {
            return new SecondMomentsFile(file, path, SecondMoments.contents(file.model(), path));
        } catch (RuntimeException e) {
            file.close();
            throw e;
        }
    }

    /** The file of second moments that belongs to a file of statistics: {@code model.stats.moments} for {@code model.stats}. */
    public static Path besides(Path statistics) {
        return statistics.resolveSibling(statistics.getFileName() + ENDING);
    }

    /** The metadata that say which model, data and samples the moments are of: those of the statistics that were taken with them. */
    public static Map<String, String> origin(Statistics taken) {
        Map<String, String> origin = new LinkedHashMap<>();
        origin.put(MODEL, taken.modelDigest());
        origin.put(DATA, taken.data().stream().map(DataPart::digest).collect(Collectors.joining(",")));
        origin.put(SAMPLES, Long.toString(taken.samplesDone()));
        return origin;
    }

    /**
     * Checks that the moments were taken with these statistics.
     *
     * @param statistics the file of the statistics, for the message
     * @throws InvalidDataException when they are of another model or of other samples
     */
    public void requireOf(Statistics taken, Path statistics) {
        origin(taken).forEach((key, value) -> {
            if (!value.equals(contents.metadata().get(key))) {
                throw new InvalidDataException(
                        "the second moments are of " + (key.equals(MODEL) ? "another model" : "other samples")
                                + " than the statistics " + statistics,
                        path.toString(),
                        "calibrate again with --second-moments --force, or delete this file to round to nearest");
            }
        });
    }

    /** What the file holds. */
    public SecondMoments.Contents contents() {
        return contents;
    }

    /** The activations, those that share a moment among them. */
    public Set<String> names() {
        Set<String> names = new LinkedHashSet<>(contents.byName().keySet());
        names.addAll(contents.same().keySet());
        return names;
    }

    /** Channels and rows of an activation's moment; null when the file has none. */
    public SecondMoments.@Nullable Held held(String name) {
        return contents.byName().get(contents.same().getOrDefault(name, name));
    }

    /**
     * Reads the moment of an activation: {@code 4 size^2} bytes.
     *
     * @throws IllegalArgumentException when the file has none of it
     * @throws InvalidDataException when it contradicts itself
     */
    public SecondMoment read(String name) {
        String own = contents.same().getOrDefault(name, name);
        SecondMoments.Held held = contents.byName().get(own);
        Tensor triangle = file.model().tensors().get(own);
        if (held == null || triangle == null) {
            throw new IllegalArgumentException("there is no moment of '" + name + "' in " + path);
        }
        return SecondMoments.moment(triangle, held.rows(), SecondMoments.where(path, own));
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
