package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream.Grid;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The emulation that watches accesses to memory finds races, and nothing else. Octet's own kernels run under it with {@code -Doctet.kernels=watched}
 * ({@code mvn verify -Pemulated}).
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class KernelRacesTest {
    private static final CudaSource SOURCE = CudaSource.of(KernelRacesTest.class, "races.cu");

    private @Nullable HostGpu gpu;

    @BeforeEach
    void open() {
        assumeTrue(HostGpu.absence().isEmpty(), () -> HostGpu.absence().orElseThrow());
    }

    @AfterEach
    void close() {
        if (gpu != null) {
            gpu.close();
            gpu = null;
        }
    }

    private void launch(String kernel, Grid grid, Object... arguments) {
        Objects.requireNonNull(gpu)
                .launch(SOURCE, kernel, grid, List.of(arguments))
                .run();
    }

    private long start(int seed) {
        HostGpu opened = new HostGpu(new HostGpu.Order(seed), 90, HostCompiler.Flavour.WATCHED);
        gpu = opened;
        return opened.allocate(4096, "numbers");
    }

    @ParameterizedTest
    @CsvSource({
        "no_barrier,1,64,reads byte .* of shared memory that thread .* wrote|writes byte .* that thread .* read",
        "read_then_written,1,64,reads byte .* that thread .* wrote|writes byte .* of shared memory that thread .* read",
        "warp_barrier_between_warps,1,64,of shared memory that thread",
        "shuffle_is_no_barrier,1,32,reads byte .* of shared memory that thread .* wrote",
        "blocks_write_one_number,2,32,writes byte .* of global memory that thread 0 of block . wrote",
    })
    void what_no_barrier_orders_is_found_in_any_order(String kernel, int blocks, int threads, String message) {
        for (int seed = 0; seed < 3; seed++) {
            long y = start(seed);
            String told = String.valueOf(assertThrows(
                            IllegalStateException.class, () -> launch(kernel, Grid.of(blocks, threads), y))
                    .getMessage());
            assertTrue(told.matches("(?s).*(" + message + ").*no barrier is between.*"), told);
            close();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"ordered_by_block", "ordered_by_warp", "blocks_write_their_own", "blocks_count"})
    void what_barriers_order_passes(String kernel) {
        for (int seed = 0; seed < 3; seed++) {
            long y = start(seed);
            int threads = kernel.startsWith("ordered") ? 64 : 32;
            int blocks = kernel.startsWith("ordered") ? 1 : 3;
            assertDoesNotThrow(() -> launch(kernel, Grid.of(blocks, threads), y));
            close();
        }
    }

    @Test
    void a_number_that_is_changed_atomically_must_not_be_read_meanwhile() {
        long y = start(0);
        long z = y + 256;
        assertThrows(IllegalStateException.class, () -> launch("counted_and_read", Grid.of(2, 32), y, z));
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2})
    void an_asynchronous_copy_is_for_who_waited_until_a_barrier(int seed) {
        long y = start(seed);
        long x = y + 1024;
        Grid grid = Grid.of(1, 32).withShared(512);
        assertDoesNotThrow(() -> launch("copies_with_barrier", grid, x, y));
        assertThrows(IllegalStateException.class, () -> launch("copies_without_barrier", grid, x, y));
    }

    /** Where it is told to be: a launch begins with nothing touched. */
    @Test
    void launches_do_not_race_with_each_other() {
        long y = start(0);
        assertDoesNotThrow(() -> {
            launch("blocks_write_their_own", Grid.of(3, 32), y);
            launch("blocks_write_their_own", Grid.of(3, 32), y);
        });
    }
}
