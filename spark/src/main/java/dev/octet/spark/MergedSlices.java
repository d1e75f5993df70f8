package dev.octet.spark;

import dev.octet.formats.file.TemporaryFolder;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;

/**
 * Statistics of slices of the samples, some of them merged. Whatever the order in which a cluster brings them together, the same are added to each
 * other: slice 2k to 2k+1, then pairs, and so on. So sums of floats come out alike, and the result depends on the slices only.
 */
final class MergedSlices implements Serializable {
    private static final long serialVersionUID = 1;

    /** By number of the first slice. */
    private final TreeMap<Integer, Block> blocks = new TreeMap<>();

    /**
     * Neighbours that were merged.
     *
     * @param size how many slices, a power of two
     * @param file as {@link StatisticsFile} writes it
     */
    @SuppressWarnings("ArrayRecordComponent") // never compared
    private record Block(int size, byte[] file) implements Serializable {}

    private MergedSlices() {}

    static MergedSlices of(int slice, Statistics statistics) {
        MergedSlices one = new MergedSlices();
        one.blocks.put(slice, new Block(1, bytes(statistics)));
        return one;
    }

    /** Both together. */
    MergedSlices and(MergedSlices other) {
        MergedSlices all = new MergedSlices();
        all.blocks.putAll(blocks);
        other.blocks.forEach(all::add);
        return all;
    }

    private void add(int first, Block block) {
        int mate = first ^ block.size(); // the block that is merged with this one: same size, the other half
        Block there = blocks.get(mate);
        if (there == null || there.size() != block.size()) {
            blocks.put(first, block);
            return;
        }
        blocks.remove(mate);
        Statistics left = statistics(first < mate ? block : there);
        Statistics right = statistics(first < mate ? there : block);
        add(Math.min(first, mate), new Block(2 * block.size(), bytes(left.merge(right))));
    }

    /** All slices merged, in their order. */
    Statistics whole() {
        Statistics whole = null;
        for (Map.Entry<Integer, Block> e : blocks.entrySet()) {
            Statistics next = statistics(e.getValue());
            whole = whole == null ? next : whole.merge(next);
        }
        if (whole == null) {
            throw new IllegalStateException("no slice was measured");
        }
        return whole;
    }

    private static byte[] bytes(Statistics statistics) {
        try (TemporaryFolder folder = TemporaryFolder.create("slices")) {
            Path file = folder.path().resolve("slice");
            StatisticsFile.write(statistics, file);
            return Files.readAllBytes(file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Statistics statistics(Block block) {
        try (TemporaryFolder folder = TemporaryFolder.create("slices")) {
            return StatisticsFile.read(Files.write(folder.path().resolve("slice"), block.file()));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
