package dev.octet.formats.dcp;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.util.List;

/**
 * A tensor of a distributed checkpoint, as {@code .metadata} describes it.
 *
 * @param key its name there: the keys of the dicts it lay in, joined by dots
 * @param path these keys, its own last
 */
record DcpTensor(String key, List<String> path, DType dtype, Shape shape, List<Chunk> chunks) {
    /**
     * A box of its elements.
     *
     * @param offsets its first element along each axis
     * @param file name of the file in the folder
     * @param position first byte of its archive in the file
     * @param length bytes of its archive
     */
    record Chunk(List<Long> offsets, List<Long> sizes, String file, long position, long length) {}
}
