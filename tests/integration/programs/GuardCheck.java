import io.netty.buffer.ByteBuf;
import io.netty.buffer.PooledByteBufAllocator;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.network.TransportContext;
import org.apache.spark.network.buffer.NettyManagedBuffer;
import org.apache.spark.network.client.RpcResponseCallback;
import org.apache.spark.network.client.TransportClient;
import org.apache.spark.network.protocol.OneWayMessage;
import org.apache.spark.network.server.OneForOneStreamManager;
import org.apache.spark.network.server.RpcHandler;
import org.apache.spark.network.server.StreamManager;
import org.apache.spark.network.server.TransportServer;
import org.apache.spark.network.util.MapConfigProvider;
import org.apache.spark.network.util.TransportConf;

/** Sends buffers as the streaming shuffle does, both ways over Spark's transport with TLS, and prints how often each is held then. */
public final class GuardCheck {
    private static final int MESSAGES = 50;

    public static void main(String[] arguments) throws Exception {
        Map<String, String> settings = new HashMap<>();
        for (String argument : arguments) {
            int at = argument.indexOf('=');
            settings.put(argument.substring(0, at), argument.substring(at + 1));
        }
        TransportConf conf = new TransportConf("shuffle", new MapConfigProvider(settings));
        CountDownLatch sent = new CountDownLatch(2 * MESSAGES);
        AtomicInteger received = new AtomicInteger();
        Map<Integer, Integer> held = new java.util.concurrent.ConcurrentSkipListMap<>();
        RpcHandler sending = new Quiet() {
            @Override
            public void receive(TransportClient client, ByteBuffer message) {
                if (message.remaining() == 1) {
                    send(client, held, sent);
                }
            }
        };
        RpcHandler taking = new Quiet() {
            @Override
            public void receive(TransportClient client, ByteBuffer message) {
                received.addAndGet(message.remaining());
            }
        };
        try (TransportContext server = new TransportContext(conf, sending); TransportContext client = new TransportContext(conf, taking);
             TransportServer listening = server.createServer()) {
            System.out.println("port " + listening.getPort());
            TransportClient connected = client.createClientFactory().createClient("127.0.0.1", listening.getPort());
            connected.send(ByteBuffer.wrap(new byte[] {1}));
            send(connected, held, sent);
            if (!sent.await(30, TimeUnit.SECONDS)) {
                throw new IllegalStateException("not sent");
            }
            System.out.println("held " + held);
            int whole = 2 * MESSAGES + 2000 * MESSAGES * (MESSAGES - 1) / 2;
            for (int look = 0; look < 1000 && received.get() < whole; look++) {
                Thread.sleep(10);
            }
            System.out.println("received " + (received.get() == whole));
            System.in.read();
        }
        System.exit(0);
    }

    private static void send(TransportClient client, Map<Integer, Integer> held, CountDownLatch sent) {
        for (int number = 0; number < MESSAGES; number++) {
            ByteBuf buffer = PooledByteBufAllocator.DEFAULT.buffer();
            buffer.writeZero(2 + number * 2000);
            ByteBuf own = buffer.retain(); // the shuffle keeps one reference, to use the buffer again
            client.getChannel().writeAndFlush(new OneWayMessage(new NettyManagedBuffer(buffer))).addListener(done -> {
                held.merge(own.refCnt(), 1, Integer::sum);
                sent.countDown();
            });
        }
    }

    private abstract static class Quiet extends RpcHandler {
        @Override
        public void receive(TransportClient client, ByteBuffer message, RpcResponseCallback callback) {
            callback.onSuccess(ByteBuffer.allocate(0));
        }

        @Override
        public abstract void receive(TransportClient client, ByteBuffer message);

        @Override
        public StreamManager getStreamManager() {
            return new OneForOneStreamManager();
        }
    }
}
