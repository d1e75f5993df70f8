package dev.octet.trainer.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.CudaStream.Grid;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CudaLaunchTest {
    private static final CudaSource SOURCE = CudaSource.of(CudaLaunch.class, "/dev/octet/trainer/op/topk/topk.cu");
    private static final CudaTensor X = new CudaTensor(new OperandType(DType.BF16, Shape.of(6)), 640);

    private final List<Object> launched = new ArrayList<>();

    private CudaLaunch kernel(String name) {
        CudaStream stream = (CudaStream) Proxy.newProxyInstance(
                CudaStream.class.getClassLoader(), new Class<?>[] {CudaStream.class}, (proxy, method, arguments) -> {
                    launched.addAll(Arrays.asList((Object[]) arguments[3]));
                    return null;
                });
        return new CudaLaunch(stream, SOURCE, name, Grid.of(1, 32));
    }

    private static CudaLaunch backward(CudaLaunch launch, String last) {
        return launch.typed("type", "dy", X)
                .pointer("indices", 64L)
                .pointer("dx", (CudaTensor) null)
                .value("n", 6L)
                .value("size", 3)
                .value("inner", 1L)
                .value(last, 2);
    }

    @Test
    void arguments_are_passed_in_their_order_and_types() {
        backward(kernel("topk_backward"), "k").launch();
        assertEquals(List.of(1, X, 64L, 0L, 6L, 3, 1L, 2), launched);
    }

    @Test
    void a_name_that_the_kernel_does_not_have_is_refused() {
        CudaLaunch launch = backward(kernel("topk_backward"), "places");
        AssertionError e = assertThrows(AssertionError.class, launch::launch);
        assertEquals(
                "topk_backward of /dev/octet/trainer/op/topk/topk.cu does not have the arguments"
                        + " [type, dy, indices, dx, n, size, inner, places]",
                e.getMessage());
    }

    @Test
    void a_kernel_that_a_macro_makes_for_each_type_is_found_by_its_prefix() {
        CudaSource norm = CudaSource.of(CudaLaunch.class, "/dev/octet/trainer/op/batchnorm/batchnorm.cu");
        CudaLaunch launch = new CudaLaunch(unused(), norm, "batchnorm_sums_f32", Grid.of(1, 32)).value("channels", 3L);
        assertThrows(AssertionError.class, launch::launch);
    }

    private static CudaStream unused() {
        return (CudaStream) Proxy.newProxyInstance(
                CudaStream.class.getClassLoader(), new Class<?>[] {CudaStream.class}, (proxy, method, arguments) -> {
                    throw new IllegalStateException(method.getName());
                });
    }
}
