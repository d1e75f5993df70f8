package dev.octet.trainer.device.cpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Memory as Linux tells it, in copies of its files. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class HostMemoryTest {
    private static final long KB = 1024;

    @TempDir
    Path root;

    private void write(String file, String... lines) throws IOException {
        Path path = root.resolve(file);
        Files.createDirectories(path.getParent());
        Files.write(path, List.of(lines));
    }

    private HostMemory found() {
        return HostMemory.of(root).orElseThrow();
    }

    @Test
    void a_machine_has_its_memory_and_its_swap() throws IOException {
        write("proc/meminfo", "MemTotal:       1000 kB", "MemFree:         10 kB", "SwapTotal:      500 kB");
        assertEquals(new HostMemory(1000 * KB, 500 * KB), found());
        assertEquals(1500 * KB, found().limitBytes());
    }

    @Test
    void a_container_has_the_least_of_its_limits_and_those_above() throws IOException {
        write("proc/meminfo", "MemTotal:       1000 kB", "SwapTotal:      500 kB");
        write("proc/self/cgroup", "0::/a/b");
        write("sys/fs/cgroup/a/memory.max", "204800");
        write("sys/fs/cgroup/a/memory.swap.max", "0");
        write("sys/fs/cgroup/a/b/memory.max", "max");
        assertEquals(new HostMemory(204_800, 0), found());
    }

    @Test
    void a_container_of_the_first_version_limits_memory_and_both_together() throws IOException {
        write("proc/meminfo", "MemTotal:       1000 kB", "SwapTotal:      500 kB");
        write("proc/self/cgroup", "9:name=systemd:/", "4:memory:/x");
        write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "300000");
        write("sys/fs/cgroup/memory/x/memory.memsw.limit_in_bytes", "400000");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
        assertEquals(new HostMemory(300_000, 100_000), found());
    }

    @Test
    void elsewhere_it_is_not_known() {
        assertEquals(Optional.empty(), HostMemory.of(root));
    }

    @Test
    void of_this_machine_there_is_some() {
        HostMemory.find()
                .ifPresent(h -> assertTrue(h.bytes() > Runtime.getRuntime().maxMemory() / 64, h.toString()));
    }
}
