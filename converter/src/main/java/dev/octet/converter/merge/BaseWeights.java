package dev.octet.converter.merge;

import dev.octet.converter.checkpoint.LinearModules;
import dev.octet.converter.checkpoint.LinearNames;
import dev.octet.converter.checkpoint.WeightReader;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.merge.WeightDelta;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;

/**
 * The weights of a base as adapters see them.
 *
 * @param where the base, for messages
 * @param shapes of all weights, biases and other float tensors, by their own name
 * @param byPath their own name, by each path that an adapter may give the parameter
 * @param rows of a weight as F32, by its own name
 * @param isConv1d whether a weight is a Conv1D's, which lies as [in, out]
 */
public record BaseWeights(
        String where,
        Map<String, Shape> shapes,
        Map<String, String> byPath,
        Function<String, WeightDelta.Rows> rows,
        Predicate<String> isConv1d) {
    /** The weights of a checkpoint. */
    public static BaseWeights of(Checkpoint checkpoint, StoredCheckpoint stored) {
        Map<String, Shape> shapes = new LinkedHashMap<>();
        stored.plain().forEach((name, spec) -> shapes.put(name, spec.shape()));
        stored.weights().forEach((name, weight) -> shapes.put(name, weight.shape()));
        LinearModules modules = LinearModules.of(checkpoint.config().orElse(null));
        Set<String> paths = new HashSet<>();
        shapes.keySet().forEach(n -> paths.add(module(n)));
        Map<String, String> byPath = new LinkedHashMap<>();
        for (String name : shapes.keySet()) {
            String module = module(name);
            String parameter = name.substring(module.length());
            for (String other : modules.otherNames(module, paths)) {
                byPath.putIfAbsent(other + parameter, name);
            }
        }
        shapes.keySet().forEach(n -> byPath.put(n, n)); // an own name goes before others
        String type =
                checkpoint.config().map(c -> c.path("model_type").asText("")).orElse("");
        WeightReader reader = WeightReader.of(checkpoint, stored);
        return new BaseWeights(
                checkpoint.path().toString(),
                shapes,
                byPath,
                name -> rows(reader, name),
                name -> LinearNames.isConv1d(type, name));
    }

    private static String module(String name) {
        int dot = name.lastIndexOf('.');
        return name.endsWith(".weight") || name.endsWith(".bias")
                ? name.substring(0, dot)
                : StoredWeight.moduleOf(name);
    }

    private static WeightDelta.Rows rows(WeightReader reader, String name) {
        return (row, values) -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment floats = arena.allocate((long) values.length * Float.BYTES, Float.BYTES);
                reader.read(name, row, row + 1, floats);
                MemorySegment.copy(floats, Tensor.F32_LE, 0, values, 0, values.length);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        };
    }

    /** The own name of a parameter that an adapter names by {@code path}; empty where the base has none. */
    Optional<String> find(String path) {
        return Optional.ofNullable(byPath.get(path));
    }

    Shape shape(String name) {
        Shape shape = shapes.get(name);
        if (shape == null) {
            throw new IllegalArgumentException("there is no weight '" + name + "'");
        }
        return shape;
    }
}
