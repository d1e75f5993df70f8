package dev.octet.trainer.device.cpu;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The memory of this machine, or of the container that the process is in, as Linux tells it (proc(5), cgroups(7)). Elsewhere it is not known.
 *
 * @param bytes of memory
 * @param swapBytes that memory can be swapped out to
 */
public record HostMemory(long bytes, long swapBytes) {
    private static final Pattern KIBIBYTES = Pattern.compile("(?m)^(MemTotal|SwapTotal):\\s+(\\d+) kB$");

    /** Container limits from which on there is none: version 1 of cgroups writes nearly 2^63. */
    private static final long ENDLESS = 1L << 60;

    /** Bytes of memory and of what it can be swapped out to: a process that needs more cannot run. */
    public long limitBytes() {
        return bytes + swapBytes;
    }

    /** Of the process; empty where it is not known. */
    public static Optional<HostMemory> find() {
        return of(Path.of("/"));
    }

    /**
     * What the files below a folder say.
     *
     * @param root the root of the file system, or a copy of it
     */
    static Optional<HostMemory> of(Path root) {
        try {
            long memory = -1;
            long swap = 0;
            Matcher m = KIBIBYTES.matcher(Files.readString(root.resolve("proc/meminfo")));
            while (m.find()) {
                long bytes = Long.parseLong(m.group(2)) << 10;
                if (m.group(1).equals("MemTotal")) {
                    memory = bytes;
                } else {
                    swap = bytes;
                }
            }
            if (memory < 0) {
                return Optional.empty();
            }
            for (Limit limit : limits(root)) {
                memory = Math.min(memory, limit.memory());
                swap = Math.min(swap, limit.swap());
            }
            return Optional.of(new HostMemory(memory, swap));
        } catch (IOException e) {
            return Optional.empty(); // not Linux
        }
    }

    private record Limit(long memory, long swap) {}

    /** Limits of the groups that the process is in, and of those above. */
    private static List<Limit> limits(Path root) throws IOException {
        List<Limit> limits = new ArrayList<>();
        Path groups = root.resolve("sys/fs/cgroup");
        Path own = root.resolve("proc/self/cgroup");
        for (String line : Files.isRegularFile(own) ? Files.readAllLines(own) : List.<String>of()) {
            String[] parts = line.split(":", 3);
            boolean first = parts.length == 3 && parts[1].equals("memory");
            if (parts.length < 3 || !(first || parts[1].isEmpty())) {
                continue;
            }
            Path top = first ? groups.resolve("memory") : groups;
            Path group = top.resolve(parts[2].replaceFirst("^/+", "")).normalize();
            for (; group != null && group.startsWith(top); group = group.getParent()) {
                if (first) {
                    long memory = number(group.resolve("memory.limit_in_bytes"));
                    long both = number(group.resolve("memory.memsw.limit_in_bytes"));
                    limits.add(new Limit(memory, both == Long.MAX_VALUE ? both : Math.max(0, both - memory)));
                } else {
                    limits.add(
                            new Limit(number(group.resolve("memory.max")), number(group.resolve("memory.swap.max"))));
                }
            }
        }
        return limits;
    }

    /** The number in a file; {@link Long#MAX_VALUE} where there is none, or it says that there is no limit. */
    private static long number(Path file) throws IOException {
        if (!Files.isRegularFile(file)) {
            return Long.MAX_VALUE;
        }
        String text = Files.readString(file).strip();
        long number = text.matches("\\d{1,18}") ? Long.parseLong(text) : Long.MAX_VALUE;
        return number >= ENDLESS ? Long.MAX_VALUE : number;
    }
}
