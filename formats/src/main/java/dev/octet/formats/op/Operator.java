package dev.octet.formats.op;

import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.TreeMap;

/**
 * The facts about one operator.
 *
 * @param domain empty for ONNX's own operators
 * @param output how its outputs follow from its inputs
 * @param autocast the number type it computes in under autocast
 * @param versions opsets of the domain that introduced or changed it, ascending, at least one
 * @param changes by version: what old nodes must be rewritten for, up to opset 21; other versions leave old nodes as they are
 */
public record Operator(
        String domain,
        String name,
        OutputRule output,
        AutocastClass autocast,
        List<Integer> versions,
        Map<Integer, Change> changes) {
    public Operator {
        versions = List.copyOf(versions);
        changes = Map.copyOf(changes);
        if (versions.isEmpty()
                || !versions.equals(versions.stream().sorted().distinct().toList())) {
            throw new IllegalArgumentException(name + ": versions " + versions + " do not ascend");
        }
        if (!versions.subList(1, versions.size()).containsAll(changes.keySet())) {
            throw new IllegalArgumentException(name + ": " + changes + " at other versions than " + versions);
        }
    }

    /** The opset that introduced the operator. */
    public int since() {
        return versions.getFirst();
    }

    /** The first version after {@code opset}; empty when the operator did not change after it. */
    public OptionalInt next(long opset) {
        return versions.stream()
                .mapToInt(Integer::intValue)
                .filter(v -> v > opset)
                .findFirst();
    }

    /** What {@code version} means for a node written for the version before. */
    public Change change(int version) {
        return changes.getOrDefault(version, Change.COMPATIBLE);
    }

    /** The same with a change that old nodes must be rewritten for. */
    Operator changed(int version, Change change) {
        Map<Integer, Change> more = new TreeMap<>(changes);
        more.put(version, change);
        return new Operator(domain, name, output, autocast, versions, more);
    }
}
