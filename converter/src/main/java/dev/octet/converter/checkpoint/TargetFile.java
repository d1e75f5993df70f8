package dev.octet.converter.checkpoint;

import dev.octet.formats.file.PartFile;
import dev.octet.formats.safetensors.SafetensorsHeader;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.layout.ScaleTensor;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;

/**
 * A file being written, tensor by tensor in any order. Thread-safe.
 *
 * @param starts start position of each tensor in the file, by name
 */
record TargetFile(PartFile file, Map<String, Long> starts) {
    /** A file with this header. */
    static TargetFile of(PartFile file, SafetensorsHeader header) {
        Map<String, Long> starts = new HashMap<>();
        header.entries().forEach(e -> starts.put(e.spec().name(), header.dataStart() + e.begin()));
        return new TargetFile(file, starts);
    }

    /** Writes bytes of a tensor, starting at byte {@code from} of the tensor. */
    void write(TensorSpec tensor, long from, MemorySegment bytes) throws IOException {
        file.write(Objects.requireNonNull(starts.get(tensor.name()), tensor.name()) + from, bytes);
    }

    /** Writes stored scales, starting at element {@code first} of their tensor. */
    void write(ScaleTensor scale, long first, MemorySegment stored) throws IOException {
        write(scale.spec(), first * scale.spec().dtype().bits() / 8, stored);
    }
}
