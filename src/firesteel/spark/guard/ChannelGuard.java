package firesteel;

import io.netty.bootstrap.ChannelInitializerExtension;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandler;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelOutboundHandlerAdapter;
import io.netty.channel.ChannelPromise;
import io.netty.channel.ServerChannel;
import io.netty.handler.ssl.SslHandler;
import io.netty.handler.ssl.SslHandshakeCompletionEvent;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.concurrent.TimeUnit;
import org.apache.spark.network.buffer.NettyManagedBuffer;
import org.apache.spark.network.protocol.Message;

/**
 * Keeps everybody but the embedded Spark itself away from the ports of its Netty servers.
 *
 * Spark's streaming shuffle listens on all interfaces, authenticates nobody, and fails its task when somebody sends
 * what it cannot decode; no setting changes that. Netty has a hook for such cases: with
 * -Dio.netty.bootstrap.extensions=serviceload it shows every channel to the extensions that it finds on the class
 * path. This one
 *
 * - lets servers that would listen on all interfaces listen on the loopback interface only;
 * - has every connection that Spark's network layer opens begin with a token, and closes those that it accepts without.
 *
 * Both ends of all these connections are in one JVM. The token comes from the environment, which only the user who
 * runs the JVM can read. Where there is none, in the executors of a cluster, neither of these is done.
 *
 * With -Dfiresteel.client.certificates=true Spark's connections are encrypted (spark.ssl.rpc.enabled). Spark itself then lets in
 * clients that have no certificate; this one does not. And it lets go of what Spark forgets: the encoder that Spark uses with
 * TLS keeps a reference to the buffer of each message, and the streaming shuffle fails its task when a buffer that was sent is
 * still held by somebody.
 *
 * scripts/guard compiles this file into guard.jar.
 */
public final class ChannelGuard extends ChannelInitializerExtension {
    private static final String TOKEN_VARIABLE = "FIRESTEEL_CHANNEL_TOKEN";
    private static final String SPARK = "org.apache.spark.network.";
    private static final String ENCODER = "encoder";
    private static final int PATIENCE_SECONDS = 20;
    private static final byte[] TOKEN = token();
    private static final boolean DEMANDS_CERTIFICATES = Boolean.getBoolean("firesteel.client.certificates");

    private static byte[] token() {
        String text = System.getenv(TOKEN_VARIABLE);
        return text == null ? new byte[0] : text.getBytes(StandardCharsets.US_ASCII);
    }

    @Override
    public void postInitializeServerListenerChannel(ServerChannel channel) {
        if (TOKEN.length > 0) {
            channel.pipeline().addLast(new BindToLoopback());
        }
    }

    @Override
    public void postInitializeServerChildChannel(Channel channel) {
        if (!isOfSpark(channel)) {
            return;
        }
        if (DEMANDS_CERTIFICATES) {
            channel.pipeline().addFirst(new BesideEncryption(true));
        }
        if (TOKEN.length > 0) {
            channel.pipeline().addFirst(new ExpectToken());
        }
    }

    @Override
    public void postInitializeClientChannel(Channel channel) {
        if (!isOfSpark(channel)) {
            return;
        }
        if (DEMANDS_CERTIFICATES) {
            channel.pipeline().addFirst(new BesideEncryption(false));
        }
        if (TOKEN.length > 0) {
            channel.pipeline().addFirst(new SendToken());
        }
    }

    /** Libraries of the user's own may use Netty, too, and talk to whom they like. */
    private static boolean isOfSpark(Channel channel) {
        ChannelHandler first = channel.pipeline().first();
        return first != null && first.getClass().getName().startsWith(SPARK);
    }

    private static final class BindToLoopback extends ChannelOutboundHandlerAdapter {
        @Override
        public void bind(ChannelHandlerContext context, SocketAddress address, ChannelPromise promise) throws Exception {
            SocketAddress bound = address;
            if (address instanceof InetSocketAddress && ((InetSocketAddress) address).getAddress().isAnyLocalAddress()) {
                InetAddress loopback = InetAddress.getByAddress(new byte[] {127, 0, 0, 1});
                bound = new InetSocketAddress(loopback, ((InetSocketAddress) address).getPort());
            }
            super.bind(context, bound, promise);
        }
    }

    /** Spark puts its own handlers, that of TLS among them, into the pipeline between this one's arrival and its first event. */
    private static final class BesideEncryption extends ChannelInboundHandlerAdapter {
        private final boolean isServer;

        BesideEncryption(boolean isServer) {
            this.isServer = isServer;
        }

        @Override
        public void channelActive(ChannelHandlerContext context) throws Exception {
            SslHandler encryption = context.pipeline().get(SslHandler.class);
            if (encryption == null) {
                context.close();
                return;
            }
            if (isServer) {
                encryption.engine().setNeedClientAuth(true);
            }
            context.pipeline().addAfter(ENCODER, null, new LetGo());
            if (!isServer) {
                context.pipeline().remove(this);
            }
            context.fireChannelActive();
        }

        @Override
        public void userEventTriggered(ChannelHandlerContext context, Object event) throws Exception {
            if (event instanceof SslHandshakeCompletionEvent && ((SslHandshakeCompletionEvent) event).isSuccess()) {
                context.pipeline().remove(this);
            }
            context.fireUserEventTriggered(event);
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            context.close(); // somebody without a certificate: the shuffle would fail its task for that
        }
    }

    /** Stands in front of Spark's encoder, which has a reference of its own to what it has encoded when it returns. */
    private static final class LetGo extends ChannelOutboundHandlerAdapter {
        @Override
        public void write(ChannelHandlerContext context, Object message, ChannelPromise promise) throws Exception {
            super.write(context, message, promise);
            if (message instanceof Message && ((Message) message).body() instanceof NettyManagedBuffer) {
                ((Message) message).body().release();
            }
        }
    }

    private static final class SendToken extends ChannelInboundHandlerAdapter {
        @Override
        public void channelActive(ChannelHandlerContext context) throws Exception {
            context.writeAndFlush(Unpooled.wrappedBuffer(TOKEN));
            context.pipeline().remove(this);
            context.fireChannelActive();
        }
    }

    private static final class ExpectToken extends ChannelInboundHandlerAdapter {
        private final byte[] received = new byte[TOKEN.length];
        private int count;
        private boolean refused;

        @Override
        public void channelActive(ChannelHandlerContext context) throws Exception {
            context.executor().schedule(() -> closeIfSilent(context), PATIENCE_SECONDS, TimeUnit.SECONDS);
            context.fireChannelActive();
        }

        private static void closeIfSilent(ChannelHandlerContext context) {
            if (!context.isRemoved()) {
                context.close();
            }
        }

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) throws Exception {
            ByteBuf bytes = (ByteBuf) message;
            int taken = Math.min(bytes.readableBytes(), received.length - count);
            bytes.readBytes(received, count, taken);
            count += taken;
            if (refused || count < received.length) {
                bytes.release();
                return;
            }
            if (!MessageDigest.isEqual(received, TOKEN)) {
                refused = true;
                bytes.release();
                context.close();
                return;
            }
            context.pipeline().remove(this);
            if (bytes.isReadable()) {
                context.fireChannelRead(bytes);
            } else {
                bytes.release();
            }
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            context.close(); // a stranger's connection broke; Spark need not know
        }
    }
}
