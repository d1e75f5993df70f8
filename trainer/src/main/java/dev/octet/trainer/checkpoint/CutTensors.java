package dev.octet.trainer.checkpoint;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.cut.Part;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * Tensors of the files of ranks, of which some are cut: then each file has a part, and says under {@link #KEY} which, as {@code {"NAME": {"shape": [96, 32], "axis": 0, "ranges": [[0, 16], [32, 48]]}}}.
 */
final class CutTensors {
    /** Key in the metadata of a file. */
    static final String KEY = "parts";

    private static final ObjectMapper MAPPER = new ObjectMapper();

    private final Path folder;
    private final Map<String, Tensor> whole = new TreeMap<>();
    private final Map<String, List<Piece>> cut = new TreeMap<>();

    private record Piece(Part part, Tensor tensor) {}

    /** @param folder of the checkpoint, for messages */
    CutTensors(Path folder) {
        this.folder = folder;
    }

    /** What a file says of its parts. */
    static String text(Map<String, Part> parts) {
        Map<String, Object> all = new TreeMap<>();
        parts.forEach((name, part) -> all.put(
                name,
                new TreeMap<>(Map.of(
                        "shape",
                        part.whole().toArray(),
                        "axis",
                        part.axis(),
                        "ranges",
                        part.ranges().stream()
                                .map(r -> new long[] {r.from(), r.to()})
                                .toList()))));
        try {
            return MAPPER.writeValueAsString(all);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("numbers are JSON", e);
        }
    }

    /**
     * Adds those of a file.
     *
     * @throws dev.octet.formats.error.MalformedModelException when it says of its parts what cannot be
     */
    void add(String file, Map<String, Tensor> tensors, Map<String, String> metadata) {
        String text = metadata.get(KEY);
        if (text == null) {
            whole.putAll(tensors);
            return;
        }
        JsonNode parts;
        try {
            parts = MAPPER.readTree(text);
        } catch (JsonProcessingException e) {
            throw CheckpointFile.damaged(folder, file + ": its " + KEY + " are not JSON", e);
        }
        tensors.forEach((name, tensor) -> {
            JsonNode of = parts.get(name);
            if (of == null) {
                whole.put(name, tensor);
            } else {
                cut.computeIfAbsent(name, _ -> new ArrayList<>()).add(new Piece(part(file, name, of, tensor), tensor));
            }
        });
    }

    private Part part(String file, String name, JsonNode of, Tensor tensor) {
        List<Part.Range> ranges = new ArrayList<>();
        of.path("ranges")
                .forEach(r -> ranges.add(
                        new Part.Range(r.path(0).asLong(-1), r.path(1).asLong(-1))));
        List<Long> dims = new ArrayList<>();
        of.path("shape").forEach(d -> dims.add(d.asLong(-1)));
        try {
            Shape shape = Shape.of(dims.stream().mapToLong(Long::longValue).toArray());
            Part part = new Part(shape, of.path("axis").asInt(-1), ranges);
            if (part.shape().equals(tensor.shape())) {
                return part;
            }
        } catch (IllegalArgumentException e) {
            throw wrong(file, name, e);
        }
        throw wrong(file, name, null);
    }

    private RuntimeException wrong(String file, String name, @Nullable Exception cause) {
        return CheckpointFile.damaged(folder, file + ": what it says of the parts of '" + name + "' cannot be", cause);
    }

    /**
     * All tensors, those that were cut put together.
     *
     * @param files takes what lets go of them
     * @throws dev.octet.formats.error.MalformedModelException when a part is missing
     */
    Map<String, Tensor> joined(List<Runnable> files) {
        if (cut.isEmpty()) {
            return whole;
        }
        Arena arena = Arena.ofShared();
        files.add(arena::close);
        cut.forEach((name, pieces) -> {
            Part first = pieces.getFirst().part;
            long covered = 0;
            for (Piece piece : pieces) {
                boolean fits = piece.part.whole().equals(first.whole())
                        && piece.part.axis() == first.axis()
                        && piece.tensor.dtype() == pieces.getFirst().tensor.dtype();
                covered += fits ? piece.part.shape().dim(first.axis()) : 0;
            }
            if (covered != first.whole().dim(first.axis())) {
                throw CheckpointFile.damaged(
                        folder,
                        "its files have " + covered + " of the " + first.whole().dim(first.axis())
                                + " elements of axis " + first.axis() + " of '" + name + "'",
                        null);
            }
            Tensor all = Tensor.allocate(
                    arena, new TensorSpec(name, pieces.getFirst().tensor.dtype(), first.whole()));
            pieces.forEach(piece -> piece.part.into(piece.tensor, all));
            whole.put(name, all);
        });
        return whole;
    }
}
