//! A server and its clients in one process.

use tokio::{io::{AsyncReadExt, AsyncWriteExt}, net::{TcpListener, TcpStream}};
#[inline(never)]
fn answer(line: &[u8]) -> Vec<u8> {
    let sum = (0..200u64).fold(0, |sum, i| line.iter().fold(sum ^ i, |sum, &b| sum.rotate_left(5) ^ u64::from(b)));
    format!("{sum:016x}").into_bytes()
}
async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut line = [0; 64];
    loop {
        stream.read_exact(&mut line).await?;
        stream.write_all(&answer(&line)).await?;
    }
}
async fn ask(address: std::net::SocketAddr) -> std::io::Result<u64> {
    let mut stream = TcpStream::connect(address).await?;
    let (mut line, mut back, mut sum) = ([7; 64], [0; 16], 0);
    for i in 0..40_000u32 {
        line[..4].copy_from_slice(&i.to_le_bytes());
        stream.write_all(&line).await?;
        stream.read_exact(&mut back).await?;
        sum += u64::from(back[0]);
    }
    Ok(sum)
}
#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { while let Ok((stream, _)) = listener.accept().await { tokio::spawn(serve(stream)); } });
    let clients: Vec<_> = (0..4).map(|_| tokio::spawn(ask(address))).collect();
    for client in clients { println!("{}", client.await??); }
    Ok(())
}
