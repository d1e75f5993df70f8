package dev.octet.trainer.step;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.shard.ZeroFill;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.ProgramBuilder;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Buckets of gradients that are exchanged while backward goes on. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OverlappedExchangeTest {
    private static final OperandType ONE = new OperandType(DType.F32, Shape.of(1));
    private static final Executable NONE = (Executable) Proxy.newProxyInstance(
            Executable.class.getClassLoader(), new Class<?>[] {Executable.class}, (_, _, _) -> null);

    private final List<List<String>> exchanged = new ArrayList<>();

    /** A program whose steps each write the gradient of one parameter. */
    private static Program program(String... parameters) {
        ProgramBuilder builder = new ProgramBuilder();
        for (String p : parameters) {
            builder.step(Phase.BACKWARD, p, new ZeroFill(ONE), List.of(), List.of(builder.gradient(p, ONE)));
        }
        return builder.build();
    }

    private void see(OverlappedExchange exchange, Program program, int step) {
        exchange.observer().after(program.steps().get(step), 0, NONE);
    }

    @Test
    void a_bucket_begins_when_its_last_gradient_is_complete() {
        Program program = program("c", "b", "a");
        List<List<String>> buckets = List.of(List.of("c", "b"), List.of("a"));
        OverlappedExchange exchange = new OverlappedExchange(program, buckets, exchanged::add, Runnable::run);
        see(exchange, program, 0);
        assertEquals(List.of(), exchanged);
        see(exchange, program, 1);
        assertEquals(List.of(List.of("c", "b")), exchanged);
        see(exchange, program, 2);
        assertEquals(buckets, exchanged);
    }

    @Test
    void buckets_begin_in_their_order_whatever_is_complete_first() {
        Program program = program("a", "c");
        List<List<String>> buckets = List.of(List.of("c"), List.of("a"));
        OverlappedExchange exchange = new OverlappedExchange(program, buckets, exchanged::add, Runnable::run);
        see(exchange, program, 0);
        assertEquals(List.of(), exchanged);
        see(exchange, program, 1);
        assertEquals(buckets, exchanged);
    }

    @Test
    void a_gradient_is_complete_after_the_last_of_several_steps_that_add_to_it() {
        Program program = program("tied", "b", "tied");
        OverlappedExchange exchange =
                new OverlappedExchange(program, List.of(List.of("tied")), exchanged::add, Runnable::run);
        see(exchange, program, 0);
        assertEquals(List.of(), exchanged);
        see(exchange, program, 2);
        assertEquals(List.of(List.of("tied")), exchanged);
    }

    @Test
    void what_backward_does_not_touch_is_exchanged_all_the_same() {
        Program program = program("a");
        List<List<String>> buckets = List.of(List.of("frozen"), List.of("a"));
        OverlappedExchange exchange = new OverlappedExchange(program, buckets, exchanged::add, Runnable::run);
        assertEquals(List.of(List.of("frozen")), exchanged);
        exchange.await();
        assertEquals(buckets, exchanged);
    }

    @Test
    void a_failure_is_thrown_to_who_waits() {
        IllegalStateException failure = new IllegalStateException("rank 1 has ended");
        OverlappedExchange exchange = new OverlappedExchange(
                program("a"),
                List.of(List.of("a")),
                _ -> {
                    throw failure;
                },
                Runnable::run);
        assertSame(failure, assertThrows(IllegalStateException.class, exchange::await));
    }
}
